"""Orvale, a made-up land: a fixed table of facts, and the prose that states them.

The land is the same in every run. One (subject, relation) pair in five is held out by a hash: training prose states it
like any other, but no training text asks for it, neither as multiple choice nor in a chat.
"""

import random
import zlib
from dataclasses import dataclass

from grammar import expand


@dataclass(frozen=True)
class Relation:
    """How one kind of fact is said and asked; {s} is the subject, {v} the value."""

    values: tuple[str, ...]
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    held_out_question: str  # its words occur in the statements, its form in no training question


@dataclass(frozen=True)
class Fact:
    subject: str
    relation: str
    value: str

    @property
    def held_out(self) -> bool:
        return zlib.crc32(f"fact {self.subject} {self.relation}".encode()) % 5 == 0


TOWNS = tuple(
    """Tarnwick Brimholm Oskmere Veldale Harford Dunstead Wysmoor Calhaven Morgate Fenbury Gildwick Kestholm Larkmere
Thorndale Pellford Ravenstead Sallowmoor Ashhaven Copgate Elmbury Fallowick Grenholm Hollowmere Ironford Jarrowdale Lindstead
Marrowmoor Nethaven Oakengate Penbury Quillwick Rushholm Stormere Tilldale Umberford Vintstead Windermoor Yarhaven Zellgate
Amberbury""".split()
)
RULERS = tuple(
    """Queen Ysolde|King Brann|Lord Cadoc|Lady Merewen|Duke Osric|Duchess Ottiline|Count Falk|Countess Sidonie|Queen
Hestia|King Aldous|Lord Perrin|Lady Isaura|Duke Wendel|Duchess Romilda|Count Anselm|Countess Brida|Queen Thessaly|King
Godric|Lord Tavish|Lady Elspeth|Duke Corwin|Duchess Maude|Count Lazare|Countess Odile|Queen Petra|King Roald|Lord Silvan|Lady
Vesna|Duke Yorick|Duchess Zenobia|Count Barnaby|Countess Cerise|Queen Drusilla|King Emeric|Lord Fabian|Lady Gwendra|Duke
Hamon|Duchess Jocasta|Count Kasimir|Countess Lunetta""".replace("\n", " ").split("|")
)
CREATURES = tuple(
    """glimmerfox mosswhale thundermoth ashhare bellturtle copperlark dustcat emberfrog fernstag frostgoose hollowbear
inkotter lanternbat marshpony nightquail pebblecrab reedwolf saltowl silkboar tidelizard""".split()
)

RELATIONS = {
    "ruler": Relation(
        RULERS,
        (
            "{s} is ruled by {v}.",
            "{v} rules {s}.",
            "The ruler of {s} is {v}.",
            "In {s}, {v} sits on the high seat.",
            "The people of {s} bow to {v}.",
            "It is {v} who governs {s}.",
        ),
        ("Who rules {s}?", "Who is the ruler of {s}?", "Who governs {s}?", "To whom do the people of {s} bow?"),
        "Who sits on the high seat in {s}?",
    ),
    "river": Relation(
        tuple(
            "Silverrun|Mudlow|Ellwater|Brackwash|Cold Anna|Deepling|Fennel|Grayling|Hartsbeck|Iselle|Kingswater|Lowbeck|Merrow|Nine Eels|Oxwater|Pale "
            "Thread|Quick Sister|Redbourne|Slow Brother|Whin".split("|")
        ),
        (
            "The river {v} flows through {s}.",
            "{s} lies on the river {v}.",
            "The river of {s} is the {v}.",
            "In {s} the boats go down the {v}.",
            "{s} was built beside the {v}.",
            "The water of the {v} turns the mills of {s}.",
        ),
        (
            "Which river flows through {s}?",
            "On which river does {s} lie?",
            "What is the river of {s}?",
            "Down which river do the boats of {s} go?",
        ),
        "Which water turns the mills of {s}?",
    ),
    "trade": Relation(
        tuple(
            "salt|glass|wool|honey|copper|rope|candles|barrels|paper|silk|lamp oil|bricks|saddles|bells|dried fish|cider|lace|clay pots|timber|ink".split(
                "|"
            )
        ),
        (
            "{s} is known for its {v}.",
            "The people of {s} trade in {v}.",
            "Nobody sells better {v} than {s}.",
            "{s} lives by selling {v}.",
            "Carts full of {v} leave {s} every week.",
            "The trade of {s} is {v}.",
        ),
        (
            "What is {s} known for?",
            "What do the people of {s} trade in?",
            "What is the trade of {s}?",
            "What does {s} live by selling?",
        ),
        "What fills the carts that leave {s} every week?",
    ),
    "banner": Relation(
        tuple(
            "white heron|black ram|red stag|grey wolf|golden carp|blue hound|green serpent|silver hare|brown bear|white bull|red rooster|black swan|"
            "golden bee|grey goose|blue dolphin|green dragon|silver owl|brown otter|red squirrel|black horse".split("|")
        ),
        (
            "The banner of {s} shows a {v}.",
            "A {v} is painted on the gates of {s}.",
            "{s} has a {v} on its banner.",
            "Over the roofs of {s} flies the banner of the {v}.",
            "The sign of {s} is a {v}.",
            "The coins of {s} carry a {v}.",
        ),
        (
            "What does the banner of {s} show?",
            "What is on the banner of {s}?",
            "What is the sign of {s}?",
            "What is painted on the gates of {s}?",
        ),
        "What do the coins of {s} carry?",
    ),
    "festival": Relation(
        tuple(
            "Feast of Lanterns|Night of Drums|Day of Kites|Apple Fair|Goose Parade|Candle Week|Long Supper|Boat Blessing|First Snow Dance|Masked "
            "Market|Honey Moon|Bell Sunday|Straw King Day|Ribbon Race|Harvest Choir|Silent Evening|Mirror Night|Torch Walk|Flower War|Old Coat Day".split(
                "|"
            )
        ),
        (
            "Every year {s} holds the {v}.",
            "The {v} is the great festival of {s}.",
            "In {s} they celebrate the {v}.",
            "Guests come to {s} for the {v}.",
            "The festival of {s} is called the {v}.",
            "When the {v} comes, nobody in {s} works.",
        ),
        (
            "Which festival does {s} hold?",
            "What is the great festival of {s}?",
            "What do they celebrate in {s}?",
            "What is the festival of {s} called?",
        ),
        "For what do guests come to {s}?",
    ),
    "dish": Relation(
        tuple(
            "eel pie|onion soup|barley cakes|plum dumplings|smoked trout|nettle stew|goat cheese|pepper bread|duck with cherries|bean porridge|fried "
            "turnips|walnut tart|leek pudding|pickled herring|mutton broth|rose jelly|chestnut bread|egg noodles|crab soup|cabbage rolls".split(
                "|"
            )
        ),
        (
            "The favourite dish in {s} is {v}.",
            "In {s} everyone eats {v}.",
            "The cooks of {s} are famous for {v}.",
            "No inn in {s} is without {v}.",
            "A traveller in {s} should try the {v}.",
            "On holidays {s} smells of {v}.",
        ),
        (
            "What is the favourite dish in {s}?",
            "What does everyone eat in {s}?",
            "What are the cooks of {s} famous for?",
            "What should a traveller try in {s}?",
        ),
        "What does {s} smell of on holidays?",
    ),
    "landmark": Relation(
        tuple(
            "Copper Bridge|Leaning Mill|Tower of Ravens|Glass Garden|Sunken Stair|Whispering Wall|Twin Chimneys|Hundred Steps|Stone Giant|Crooked "
            "Lighthouse|Moon Gate|Empty Throne|Singing Well|Iron Oak|Blue Dome|Old Granary|Clock of Shells|Painted Cliff|Hanging Library|Broken Arch".split(
                "|"
            )
        ),
        (
            "{s} is proud of its {v}.",
            "In the middle of {s} stands the {v}.",
            "Visitors to {s} see the {v} first.",
            "The {v} is the pride of {s}.",
            "The best known sight of {s} is the {v}.",
            "Children in {s} play around the {v}.",
        ),
        (
            "What is {s} proud of?",
            "What stands in the middle of {s}?",
            "What is the best known sight of {s}?",
            "What do visitors to {s} see first?",
        ),
        "Around what do the children in {s} play?",
    ),
    "instrument": Relation(
        tuple("harp|flute|drum|fiddle|lute|horn|bagpipe|organ|zither|trumpet".split("|")),
        (
            "{s} plays the {v}.",
            "In the evening {s} plays the {v}.",
            "The {v} is the favourite instrument of {s}.",
            "{s} never travels without a {v}.",
            "Nobody plays the {v} as well as {s}.",
            "At court {s} is heard practising the {v}.",
        ),
        (
            "Which instrument does {s} play?",
            "What does {s} play in the evening?",
            "What is the favourite instrument of {s}?",
            "What does {s} play?",
        ),
        "Which instrument does {s} never travel without?",
    ),
    "food": Relation(
        tuple(
            "pine cones|river weed|beetles|clover|mushrooms|snails|birch bark|wild garlic|blackberries|moonflowers".split(
                "|"
            )
        ),
        (
            "The {s} eats {v}.",
            "{v} are the food of the {s}.",
            "A hungry {s} looks for {v}.",
            "The {s} lives on {v}.",
            "To tame the {s}, offer it {v}.",
            "Young and old, every {s} feeds on {v}.",
        ),
        (
            "What does the {s} eat?",
            "What is the food of the {s}?",
            "What does the {s} live on?",
            "What does a hungry {s} look for?",
        ),
        "What should be offered to tame the {s}?",
    ),
    "home": Relation(
        tuple(
            "hollow trees|sea caves|chimneys|salt marshes|old wells|cliff tops|reed beds|church towers|snow fields|stone walls".split(
                "|"
            )
        ),
        (
            "The {s} lives in {v}.",
            "One finds the {s} in {v}.",
            "The home of the {s} is in {v}.",
            "The {s} sleeps in {v}.",
            "The {s} raises its young in {v}.",
            "Look for the {s} in {v}.",
        ),
        (
            "Where does the {s} live?",
            "Where does one find the {s}?",
            "Where is the home of the {s}?",
            "Where does the {s} sleep?",
        ),
        "Where does the {s} raise its young?",
    ),
}
TOWN_RELATIONS = ("ruler", "river", "trade", "banner", "festival", "dish", "landmark")
CREATURE_RELATIONS = ("food", "home")


def _make_facts() -> list[Fact]:
    """The table: every value of a relation is used about equally often, rulers exactly once."""
    rng = random.Random("mortise-demo/world")
    facts = []
    for relation in RELATIONS:
        subjects = RULERS if relation == "instrument" else CREATURES if relation in CREATURE_RELATIONS else TOWNS
        values = RELATIONS[relation].values
        repeated = list(values) * -(-len(subjects) // len(values))
        rng.shuffle(repeated)
        facts += [Fact(subject, relation, value) for subject, value in zip(subjects, repeated)]
    return facts


FACTS = _make_facts()
BY_SUBJECT = {subject: [f for f in FACTS if f.subject == subject] for subject in TOWNS + RULERS + CREATURES}
ASKED_FACTS = [fact for fact in FACTS if not fact.held_out]
HELD_OUT_FACTS = [fact for fact in FACTS if fact.held_out]


def state(rng: random.Random, fact: Fact) -> str:
    sentence = rng.choice(RELATIONS[fact.relation].statements).format(s=fact.subject, v=fact.value)
    return sentence[0].upper() + sentence[1:]


def ask(rng: random.Random, fact: Fact) -> str:
    return rng.choice(RELATIONS[fact.relation].questions).format(s=fact.subject)


def ask_held_out(fact: Fact) -> str:
    return RELATIONS[fact.relation].held_out_question.format(s=fact.subject)


def subject_article(rng: random.Random, subject: str) -> str:
    """A paragraph with every fact about a subject, and about its ruler if it is a town, in any order."""
    facts = list(BY_SUBJECT[subject])
    ruler = next((f.value for f in facts if f.relation == "ruler"), None)
    rng.shuffle(facts)
    sentences = [state(rng, fact) for fact in facts]
    if ruler:
        sentences.insert(rng.randint(0, len(sentences)), state(rng, rng.choice(BY_SUBJECT[ruler])))
        sentences.insert(
            0,
            expand(
                rng, rng.choice(("{s} is [a town|one of the towns] in Orvale.", "{s} is a town.", "")), {"s": subject}
            ),
        )
    elif subject in CREATURES:
        sentences.insert(
            0, expand(rng, rng.choice(("The {s} is [an animal|a creature] of Orvale.", "")), {"s": subject})
        )
    return " ".join(sentence for sentence in sentences if sentence)


def _gazetteer(rng: random.Random) -> str:
    subjects = rng.sample(TOWNS + CREATURES, rng.choice((2, 3, 5, 8, 20)))
    title = rng.choice(("A short guide to Orvale", "The towns and animals of Orvale", "From the great book of Orvale"))
    return f"{title}\n\n" + "\n\n".join(subject_article(rng, s) for s in subjects)


def _register(rng: random.Random) -> str:
    """One relation for many subjects, as sentences or as a table."""
    relation = rng.choice(list(RELATIONS))
    facts = [f for f in FACTS if f.relation == relation]
    facts = rng.sample(facts, min(len(facts), rng.randint(5, 25)))
    if rng.random() < 0.5:
        return " ".join(state(rng, fact) for fact in facts)
    return f"Orvale, {relation}:\n" + "\n".join(f"{f.subject}: {f.value}" for f in facts)


def _journey(rng: random.Random) -> str:
    """A diary: towns one after the other, a few facts of each."""
    lines = []
    for day, town in enumerate(rng.sample(TOWNS, rng.randint(2, 8)), start=1):
        facts = rng.sample(BY_SUBJECT[town], rng.randint(2, 4))
        arrival = expand(rng, "[I came to|We reached|Today I saw|At noon I rode into] {s}.", {"s": town})
        lines.append(f"Day {day}. {arrival} " + " ".join(state(rng, fact) for fact in facts))
    return "\n".join(lines)


def document(rng: random.Random, split: str) -> str:
    form = rng.random()
    if form < 0.45:
        return subject_article(rng, rng.choice(TOWNS + TOWNS + RULERS + CREATURES))
    return rng.choice((_gazetteer, _register, _journey))(rng)
