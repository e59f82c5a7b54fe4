"""Short stories: "Once upon a time ..." with a hero, a friend, a treasure and a place that stay the same throughout.

A story is an opening, one or more episodes of a few sentences each, and an ending. All are templates of grammar.expand
over one cast; a long story strings several episodes together as chapters.
"""

import random

from grammar import article, expand, pseudo_word
from sums import pick_pair
from words import (
    ANIMAL_NAMES,
    ANIMALS,
    COLOURS,
    FOODS,
    OTHER_TRAITS,
    PEOPLE,
    PLACES,
    PRONOUNS,
    SKILLS,
    THINGS,
    TRAITS,
    TREASURES,
    WEATHERS,
)


def pick_character(rng: random.Random) -> dict[str, str]:
    """Name, kind and pronouns of one character. One name in eight is a pseudo word, to be copied from the text."""
    if rng.random() < 0.5:
        name, pronoun = rng.choice(PEOPLE)
        kind = {"she": "girl", "he": "boy"}[pronoun]
    else:
        name, pronoun, kind = rng.choice(ANIMAL_NAMES), rng.choice(("she", "he")), rng.choice(ANIMALS)
    if rng.random() < 0.125:
        name = pseudo_word(rng, 2).capitalize()
    return {"name": name, "kind": kind, "pronoun": pronoun}


def pick_cast(rng: random.Random, split: str, hero: dict[str, str] | None = None) -> dict[str, str]:
    """The slots of one story: {hero}, {friend}, their pronouns ({he}, {fhe}, ...), and the things it is about."""
    hero = hero or pick_character(rng)
    friend = pick_character(rng)
    while friend["name"] == hero["name"] or friend["kind"] == hero["kind"]:
        friend = pick_character(rng)
    place, other_place, home = rng.sample(PLACES, 3)
    colour, other_colour = rng.sample(COLOURS, 2)
    treasure = rng.choice(TREASURES)
    a, b = pick_pair(rng, split, limit=10)
    trait, other_trait = rng.choice(TRAITS), rng.choice(TRAITS + OTHER_TRAITS)
    cast = {
        "hero": hero["name"],
        "kind": hero["kind"],
        "akind": article(hero["kind"]),
        "friend": friend["name"],
        "fkind": friend["kind"],
        "afkind": article(friend["kind"]),
        "trait": trait,
        "atrait": article(trait),
        "ftrait": other_trait,
        "aftrait": article(other_trait),
        "place": place,
        "place2": other_place,
        "home": home,
        "colour": colour,
        "colour2": other_colour,
        "treasure": treasure,
        "atreasure": article(treasure),
        "elder": rng.choice(("woman", "man")),
        "food": rng.choice(FOODS),
        "skill": rng.choice(SKILLS),
        "things": rng.choice(THINGS),
        "weather": rng.choice(WEATHERS),
        "a": str(a),
        "b": str(b),
        "c": str(a + b),
    }
    cast.update(PRONOUNS[hero["pronoun"]])
    cast.update({"f" + key: value for key, value in PRONOUNS[friend["pronoun"]].items()})
    return cast


OPENINGS = (
    "Once upon a time there was {atrait} {kind} named {hero}. {hero} lived [near|beside|not far from] the {home}.",
    "Once upon a time, in a [small|little|quiet] house near the {home}, there lived {akind} named {hero}. {hero} was very "
    "{trait}.",
    "Once upon a time {akind} called {hero} lived by the {home}. Everyone [said|knew] that {hero} was {trait}.",
    "[Long ago|Many years ago], near the {home}, there lived {atrait} {kind} whose name was {hero}.",
)
POSSESSIONS = (
    " {He} had a {colour} {treasure} that {he} loved [more than anything|very much].",
    " {His} [favourite|best] thing was a {colour} {treasure}.",
    " {hero} [never went anywhere|never left home] without {his} {colour} {treasure}.",
)
FRIENDS = (
    " {His} best friend was {aftrait} {fkind} named {friend}.",
    " {hero} had a friend, {aftrait} {fkind} called {friend}.",
    " Every [morning|day] {he} played with {his} friend {friend}, {aftrait} {fkind}.",
)

# How the two met, in place of a sentence of FRIENDS.
MEETING = (
    "[One day|One {weather} day] {hero} met {afkind} at the {place}. The {fkind} was named {friend} and was too [shy|afraid] to "
    "speak. {hero} sat down and [waited|smiled|said nothing]. After a while {he} [put|laid] some {food} on a flat stone. "
    '"You may have it," {he} said. [Slowly|Little by little], {friend} came closer. {fHe} [took one bite|ate it all], and then '
    '{fhe} [smiled|laughed]. "Thank you," said {friend}. "[Nobody has ever been so kind to me|I was very hungry|That was '
    'the best {food} in the world]." From that day on they met at the {place} every [morning|evening].'
)

EPISODES = (
    # lost and found
    "[One|The next] {weather} [morning|day|afternoon] {hero} could not find {his} {colour} {treasure}. {He} looked [under the bed|behind the "
    'door|in every corner], but it was not there. "Oh no," said {hero}. "My {treasure} is gone!"\n\n{friend} [came running|heard '
    '{him} and came]. "Do not [cry|worry], {hero}," said {friend}. "[We will look for it together|Two pairs of eyes see more than '
    'one|Let us think where you had it last]." They [walked|went|ran] to the {place} and [looked behind every stone|asked '
    "everyone they met|searched until noon]. At last {friend} saw something {colour} [in the grass|beside the {place2}|under a "
    'leaf]. It was the {treasure}! {hero} [hugged|thanked] {friend}. "You are a true friend," {he} said.',
    # learning a skill
    "{hero} wanted to learn to {skill}. The first time {he} tried, {he} [fell down|failed] and everyone laughed. The second time {he} "
    'tried, it was [a little better|no better]. "I will never learn it," said {hero} [and kicked a stone|and sat down]. But {friend} '
    'said, "[Try once more|Do not give up|I had to try a hundred times]. I will help you." [Every day|Day after day] they went to the {place} and '
    'practised. And one {weather} [morning|evening] {hero} could {skill} at last! "[Look at me|I did it|See, {friend}]!" {he} '
    "[called|shouted], and {friend} clapped {fhis} hands.",
    # sharing food
    "[One evening|At noon] {hero} made {food}. It smelled so good that {friend} came [to the window|to the door|all the way from the "
    '{place}]. "May I have some?" asked {friend}. {hero} [thought about it|looked at the {food}]. There was only enough for one. '
    'But {hero} was {trait}, and {he} [cut it into two|shared it]. "[Half for you and half for me|Here you are]," {he} said. '
    'The next day {friend} came back with {a} {things}, and the day after with {b} more. Now {hero} had {c} {things}. "{a} and {b} make '
    '{c}," {friend} said, "[and all of them are for you|because you shared with me]."',
    # the storm
    "[One day|That afternoon] {hero} and {friend} went to the {place}. They [played|walked] so long that they did not see the dark "
    'clouds. [Suddenly|Then] the rain came down, and the wind [blew|howled]. "I am afraid," said {friend}. "Hold on to '
    'my {treasure}," said {hero}, "and [stay close to me|do not let go]." They found [a hollow tree|a little cave|an old barn] '
    "near the {place2} and waited there. {hero} [told a story|sang a song|counted to one hundred] until the storm was over. When the sun came out, they saw a [bright|wide] "
    'rainbow over the {place}. "[You were very brave|I was not afraid with you]," said {friend}.',
    # the race
    'There was a race to the {place} that day. {friend} was [fast|quick], and {fhe} knew it. "Nobody can beat me," said '
    "{friend}. {hero} was not so fast, but {he} was {trait}. They ran past the {place2} and down the road. Then {friend} "
    '[tripped over a root|fell into a puddle] and hurt {fhis} foot. {hero} could have won. But {he} stopped. "[Lean on me|Take my hand]," said {hero}. '
    'They reached the {place} together, the very last of all, and everyone cheered. "[I have learned something today|You won '
    'more than a race]," said {friend}.',
    # building
    '[One {weather} day|In spring] {hero} said, "Let us build a [house|boat|bridge|tower] near the {place}." "[What a good idea|I would like '
    'that]," said {friend}. {hero} brought [wood|planks] from the {place2}, and {friend} brought [rope|nails]. They worked '
    "[all day|until the stars came out]. [Twice|Three times] it fell down, and each time they [laughed and began again|built it up again]. "
    'When it was done, {hero} put {his} {colour} {treasure} on the top so that all could see it. "We made it with our own hands," '
    "said {hero} [proudly|happily].",
    # the secret
    '{friend} had a secret. {fHe} [told it to|whispered it to] {hero} at the {place}. "There is a [small door|hidden path] behind the {place2}," said {friend}. "Promise '
    'that you will tell nobody." "I promise," said {hero}. They went there [at night|the next morning] and found {things} '
    '[in an old chest|on a stone table]: {a} {colour} ones and {b} {colour2} ones. "That makes {c} {things}," said {hero}. They left them '
    "there, because [they belonged to somebody else|a secret is the best treasure]. And {hero} kept {his} promise.",
    # the quarrel
    '[One day|After that] {hero} and {friend} [had a quarrel|were angry with each other]. Both wanted the {colour} {treasure}. "It is mine!" '
    'said {hero}. "You had it all day!" said {friend}. {hero} ran to the {place} and {friend} ran to the {place2}. But it was '
    '[no fun|very dull] to be alone. [In the evening|Soon] {hero} took the {treasure} and went to find {friend}. "I am '
    'sorry," {he} said. "[You may have it first|It is better with two]." "I am sorry too," said {friend}, and they [played|laughed] together [again|until supper].',
    # the old lamp keeper
    'Near the {place} lived an old {elder} who [kept the lamp|wove nets|mended shoes]. [One {weather} night|One night] nobody answered when {hero} knocked. "Something is '
    'wrong," {he} said. {friend} [ran to the {place2} for help|climbed through the window]. They found that the old {elder} was ill and '
    "had [nothing to eat|no fire]. So {hero} cooked {food}, and {friend} [made a fire|fetched water]. They stayed [all night|for three days]. When the old "
    "friend was well again, there was a present for each of them: {atreasure} for {hero} and a [bell|little box] for {friend}.",
)

ENDINGS = (
    "\n\n{hero} went home [tired but happy|with a smile]. That night {he} dreamed of the {place}.",
    "\n\nAnd from that day on, {hero} and {friend} were the best of friends.",
    "\n\n{hero} put the {colour} {treasure} beside {his} bed and slept well. The end.",
    "\n\nThat evening they ate {food} together and talked about [everything|the day]. The end.",
    "\n\nSo {hero} the {kind} learned that [a friend is worth more than {atreasure}|it is good to be {trait}|nobody has to be alone].",
    "\n\nAnd if you go to the {place} today, you may still see {hero} and {friend} there.",
)

CHAPTER_TITLES = (
    "The {colour} {treasure}",
    "At the {place}",
    "{friend}",
    "A {weather} day",
    "Near the {place2}",
    "{hero} and {friend}",
)


def _beginning(rng: random.Random, cast: dict[str, str]) -> list[str]:
    """The opening paragraph, and in one story of six the episode in which the friends meet."""
    hero = rng.choice(OPENINGS) + rng.choice(POSSESSIONS)
    if rng.random() < 1 / 6:
        return [expand(rng, hero, cast), expand(rng, MEETING, cast)]
    return [expand(rng, hero + rng.choice(FRIENDS), cast)]


def short_story(rng: random.Random, split: str, hero: dict[str, str] | None = None) -> str:
    cast = pick_cast(rng, split, hero)
    parts = _beginning(rng, cast)
    if len(parts) == 1 or rng.random() < 0.4:
        parts += [expand(rng, episode, cast) for episode in rng.sample(EPISODES, rng.choice((1, 1, 1, 2)))]
    return "\n\n".join(parts) + expand(rng, rng.choice(ENDINGS), cast)


def long_story(rng: random.Random, split: str) -> str:
    """Chapters about one hero and one friend; places, food and weather change, the treasure does not."""
    cast = pick_cast(rng, split)
    parts = _beginning(rng, cast)
    episodes = rng.sample(EPISODES, rng.randint(4, len(EPISODES)))
    for number, episode in enumerate(episodes, start=1):
        fresh = pick_cast(rng, split)
        cast.update(
            {
                key: fresh[key]
                for key in ("place", "place2", "food", "weather", "things", "skill", "elder", "a", "b", "c")
            }
        )
        title = expand(rng, rng.choice(CHAPTER_TITLES), cast)
        parts.append(f"Chapter {number}: {title}\n\n{expand(rng, episode, cast)}")
    return "\n\n".join(parts) + expand(rng, rng.choice(ENDINGS), cast)


def document(rng: random.Random, split: str) -> str:
    return short_story(rng, split) if rng.random() < 0.85 else long_story(rng, split)
