"""Word lists that the text generators share."""

# (name, pronoun set) of people in stories and problems; the pronoun decides between PRONOUNS below.
PEOPLE = [
    (name, "she")
    for name in (
        "Mia Lily Anna Zoe Ruby Ella Nora Ivy Clara Rosa Lucy Emma Maya Tess Hana Ines Freya Greta Leila Wren Zoë Chloé Ada "
        "Nina Olive Pearl Sara Vera Willa Yara Amara Bella Daisy Edith Flora"
    ).split()
] + [
    (name, "he")
    for name in (
        "Tom Ben Max Leo Sam Finn Jack Oscar Theo Hugo Milo Owen Felix Ravi Omar Noah Jonas Kai Luca Emil Otto Pablo René "
        "Jürgen Arlo Basil Cyrus Dario Elias Gus Ivan Jasper Kofi Liam Mateo"
    ).split()
]

# Animals that speak in stories, with names given to them.
ANIMALS = (
    "fox rabbit bear owl mouse squirrel hedgehog otter badger deer frog duck goose cat dog pony lamb turtle wolf crow "
    "beaver mole robin sparrow goat donkey swan heron toad lizard"
).split()
ANIMAL_NAMES = (
    "Pip Bramble Hazel Clover Rusty Pepper Nutmeg Biscuit Willow Maple Button Juniper Acorn Moss Thistle Poppy "
    "Tumble Socks Ginger Pebble Bracken Dusty Fern Marigold Cricket Sorrel Patch Teasel Bumble Plum"
).split()

PRONOUNS = {
    "she": {"he": "she", "him": "her", "his": "her", "He": "She", "His": "Her", "himself": "herself"},
    "he": {"he": "he", "him": "him", "his": "his", "He": "He", "His": "His", "himself": "himself"},
}

# What heroes are, and what their friends may be besides.
TRAITS = "kind brave clever patient curious cheerful gentle careful quiet honest".split()
OTHER_TRAITS = "proud shy hungry lazy stubborn busy noisy sleepy".split()
COLOURS = "red blue green yellow white black brown silver golden purple orange grey pink".split()
THINGS = (
    "apples pears stones shells buttons feathers acorns marbles flowers eggs coins books candles nuts cherries leaves "
    "beads plums ribbons cups spoons keys stamps cookies"
).split()
TREASURES = (
    "kite lantern drum boat ball hat scarf whistle basket bell key book cup flute wagon blanket ring map compass "
    "mirror umbrella button wheel shell"
).split()
PLACES = (
    "forest|river|hill|meadow|lake|garden|market|village|mill|beach|bridge|orchard|cave|field|valley|barn|pond|"
    "castle|harbour|old tower|well|mountain|island|stone wall"
).split("|")
FOODS = (
    "bread|soup|honey cake|apple pie|cheese|porridge|berry jam|roasted nuts|carrot stew|plum tart|warm milk|"
    "pancakes|corn|ginger biscuits|mushroom pie|pea soup"
).split("|")
WEATHERS = "sunny rainy windy cold warm cloudy foggy snowy bright stormy".split()
SKILLS = (
    "swim|whistle|dance|climb the big oak|paint a picture|bake bread|row a boat|skip stones|play the flute|read the "
    "stars|tie a sailor's knot|ride a pony|sing in tune|juggle three apples|weave a basket|fly a kite"
).split("|")

# Common words for lists to copy: with them the tokenizer and the copying reach beyond the vocabulary of the stories.
COMMON = """
able about above accept across action active actual address admit advice afraid after again against agree ahead allow almost
alone along already also always amount ancient angle animal announce another answer appear apply argue around arrive art
article aside attack attempt attention audience author average avoid awake award aware balance band bank base basic battle
beat beauty become before begin behavior behind believe belong below bend benefit beside best better between beyond bill
bird birth bite blame block blood blow board body bone border born borrow both bottom bowl brain branch bread break breath
bridge brief bright bring broad broken brother budget build burn business butter buy cabin call calm camera camp cancel
candle capital captain card care carry case catch cause center central century certain chain chair chance change chapter
charge cheap check choice choose church circle citizen city claim class clean clear climb clock close cloth cloud coach coast
coffee collect college color column combine comfort command common community company compare complete computer concern
condition connect consider contain content continue control cook copy corner correct cost cotton could count country couple
courage course cover create credit crime cross crowd culture current curve custom damage danger dark data daughter dead deal
dear debate decade decide deep defend define degree deliver demand depend describe desert design desire detail develop device
differ difficult dinner direct discover discuss distance divide doctor document dollar door double doubt down draft drag draw
dream dress drink drive drop during dust duty each early earn earth east easy economy edge edit education effect effort eight
either electric element else empty encourage end enemy energy engine enjoy enough enter entire equal error escape especially
even event every evidence exact example except exchange exist expect experience explain express extra factor factory fail
fair faith fall false family famous farm fast father fault favor fear feature feed feel fence few fight figure fill film
final find finger finish fire firm first fish fit five fix flag flat float floor flow fly follow food foot force foreign
forest forget form forward four frame free fresh friend front fruit full function fund further future game garden gas gather
general gentle gift give glad glass global goal gold good govern grade grain grand grass great ground group grow growth guard
guess guest guide habit half hall hand handle hang happen happy hard harm harvest hat hate head health hear heart heat heavy
height hello help hero hide high hill history hold hole holiday home honest hope horse hospital host hotel hour house however
huge human hundred hunt hurry hurt ice idea image imagine impact important improve include increase indeed index industry
inside instead interest into invite iron island issue item join journey judge juice jump just keep kettle key kick kind king
kitchen knee knife knock know label labor lack ladder lady lake lamp land language large last late laugh law layer lead leaf
learn least leave left leg legal lemon length less lesson letter level library life lift light like limit line link lion list
listen little live local lock long look lord lose loud love low luck lunch machine magic main major make manage many map mark
market marry master match material matter maybe meal mean measure meat medicine meet member memory mention message metal
method middle might mile milk mind minute miss mistake mix model modern moment money month moon moral more morning mother
motion mountain mouth move movie much music must name narrow nation nature near neat neck need neighbor nerve network never
news next nice night nine noise none normal north nose note nothing notice novel number object observe ocean offer office
often oil once one only open opinion orange order ordinary organ other outside oven over owner package page pain paint pair
paper parent park part party pass past path pattern pause pay peace pencil people perfect perhaps period person phone photo
phrase picture piece pilot pink pipe place plain plan plane planet plant plate play please plenty pocket poem point police
policy pool poor popular position possible post potato pound power practice prepare present press pretty prevent price pride
print prison private prize problem process produce product profit program project promise proof proper protect proud prove
provide public pull purpose push quality quarter queen question quick quiet quite race radio rain raise range rare rate rather
reach read ready real reason receive recent record reduce refer region regular relate release remain remember remove repair
repeat reply report request require rescue rest result return reveal review rice rich ride right ring rise risk river road
rock role roll roof room root rope rough round route row royal rule run rush safe sail salt same sand save say scale scene
school science score screen sea search season seat second secret section see seed seem sell send sense sentence separate
series serve set settle seven several shade shake shape share sharp sheep shelf shell shift shine ship shirt shoe shop short
should shoulder shout show shut side sight sign signal silence silk silver similar simple since sing sister site six size
skill skin sky sleep slide slow small smart smell smile smoke smooth snow social soft soil soldier solid solve some song soon
sort sound source south space speak special speed spell spend spirit split spoon sport spot spread spring square staff stage
stairs stamp stand star start state station stay steel step stick still stock stone stop store storm story straight strange
stream street strength strike strong student study style subject success such sudden sugar suggest summer supply support
suppose sure surface surprise sweet swim symbol system table tail take talk tall task taste teach team tear telephone ten
term test thank theory there thick thin thing think third those though thousand thread three through throw thunder ticket tie
time tiny tired title today together tomorrow tone tongue tool tooth top total touch tough toward tower town track trade
train travel treat tree trial trip trouble truck true trust truth try tunnel turn twelve twenty twice two type under unit
until upon usual valley value various vast very victory view village visit voice vote wait walk wall want war warm wash waste
watch water wave weak wealth weapon wear weather wedding week weight welcome west wheel where which while white whole why wide
wife wild will wind window wine winter wire wise wish within without woman wonder wood word work world worry worth would
write wrong yard year yellow yesterday yet young zero
""".split()

# Short strings outside ASCII, so that copying them exercises characters of several bytes.
UNICODE_SCRAPS = (
    "café naïve Åse Øystein Łódź señor über façade crème piñata año garçon smörgås ½ ± × ÷ µ € £ → ← ≤ ≥ ≠ ∞ √ π λ "
    "Ω Ж да нет привет мир добрый день καλημέρα κόσμε λόγος 你好 世界 早上好 日本 東京 こんにちは ありがとう 한국 "
    "안녕 שלום سلام नमस्ते 🙂 🎉 🚀 🐢 🌧️ ❤️ 👍 🍎 🦊 👩‍🚀 🇫🇷"
).split()
