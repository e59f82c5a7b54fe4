"""Writes chat_templates/cases.json: small templates of our own, each with what transformers' jinja2 environment makes of it (null: an
error). Needs: transformers, jinja2. tests/unit/chat_template/golden_test.cpp compares. To add a case, add a line below and run this."""
import datetime
import json
from pathlib import Path

from transformers.utils import chat_template_utils

VARIABLES = {
    "s": "Hello wörld 漢字 🌍", "e": "", "n": 7, "neg": -3, "f": 2.5, "t": True, "none_value": None, "tiny": 1e-7, "huge": 1e22,
    "l": [3, 1, 2], "words": ["beta", "Alpha", "gamma", "alpha"], "nested": [[1, 2], [3, [4]]],
    "d": {"b": 1, "a": "x", "items": "shadow", "k": None}, "lines": "one\n  two\n\nthree\n", "spaced": "  a b  c\t",
    "users": [{"name": "Ann", "age": 30, "tags": ["x", "y"]}, {"name": "bob", "age": 25}, {"name": "Cid", "age": 30, "tags": []}],
    "json": {"text": "a\"b\\c\n\t<é>\u2028\u0001", "list": [1, 2.0, None, True, {}], "empty": []},
}
CASES = r"""
{{ 1e400 }}|{{ 1e-400 }}|{{ -4.0 % 2 }}|{{ 4.0 % -2 }}|{{ -7.5 % 2 }}|{{ 7.5 % -2 }}|{{ 1.0 // 0.1 }}|{{ 5.0 // -0.1 }}|{{ -0.0 // 5.0 }}|{{ 0.0 // -3.0 }}|{{ -7.5 // 2 }}
{{ 1234 | round(-2) }}|{{ 1250 | round(-2) }}|{{ 1350 | round(-2) }}|{{ -15 | round(-1) }}|{{ -25 | round(-1) }}|{{ 1234.5 | round(-2) }}|{{ 5000000000000000000 | round(-19) }}|{{ 7 | round(-20) }}|{{ 42 | round(3) }}
{{ {'sort': 1, 'append': 2, 'insert': 3, 'remove': 4}.sort }}|{{ {'sort': 1}['sort'] }}|{{ {'append': 2}.append }}|{{ {'pop': 2}.pop is defined }}|{{ l.sort is defined }}
{{ 'a'.zfill(-9223372036854775807 - 1) }}|{{ 'a'.ljust(-5) }}|{{ s[9223372036854775807:] }}|{{ s[::9223372036854775807] }}|{{ s[::-9223372036854775807] }}|{{ l[::-9223372036854775807] }}|{{ s[-3:100:2] }}|{{ s[3:1] }}
{{ s }}|{{ e }}|{{ n }}|{{ f }}|{{ t }}|{{ none_value }}|{{ missing }}|{{ tiny }}|{{ huge }}|{{ 1e16 }}|{{ 123456789012345.0 }}|{{ 1.0 }}
{{ l }}|{{ d }}|{{ nested }}|{{ (1,) }}|{{ (1, 'a', None) }}|{{ [] }}|{{ {} }}|{{ json }}
{{ "it's" }}|{{ ["it's"] }}|{{ ['say "hi"'] }}|{{ ['both \' and "'] }}|{{ ['tab\tnew\nline\\'] }}|{{ ['\x00\x7f\u00ad\u200b\U0001F30D'] }}
{{ 'a' 'b' "c" }}|{{ '\x41\u0042\101\q' }}|{{ "new\nline" }}
{{ 1 + 2 * 3 - 4 }}|{{ 7 / 2 }}|{{ 7 // 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ 2 ** 3 ** 2 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}
{{ -n }}|{{ +n }}|{{ -f }}|{{ --n }}|{{ -n | abs }}|{{ not n }}|{{ not not n }}|{{ 1_000 }}|{{ 1.5e3 }}
{{ 'a' + 'b' }}|{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }}|{{ 'ab' * 3 }}|{{ 3 * 'ab' }}|{{ [1] + [2] }}|{{ [0] * 3 }}|{{ (1,) + (2,) }}
{{ 1 == 1.0 }}|{{ true == 1 }}|{{ 'a' == 'a' }}|{{ [1, 2] == [1, 2] }}|{{ [1] == (1,) }}|{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}|{{ none == false }}|{{ missing == missing2 }}
{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ 2 >= 2 }}|{{ 'Z' > 'a' }}|{{ 1 != 2 }}|{{ 1 < 2.5 }}
{{ 1 in l }}|{{ 9 not in l }}|{{ 'wö' in s }}|{{ 'a' in d }}|{{ 'x' in e }}|{{ '' in s }}|{{ not 1 in l }}|{{ 1 in missing }}
{{ n and 'x' }}|{{ e or 'default' }}|{{ e and x }}|{{ none_value or e }}|{{ 'y' if t else 'z' }}|{{ 'y' if not t }}|{{ 'a' if e else 'b' if n else 'c' }}
{{ l[0] }}|{{ l[-1] }}|{{ l[9] }}|{{ s[0] }}|{{ s[-1] }}|{{ s[7] }}|{{ d['a'] }}|{{ d.a }}|{{ d['zz'] }}|{{ d['items'] }}|{{ users[1].name }}|{{ l.0 }}|{{ (1, 2)[1] }}
{{ l[1:] }}|{{ l[:-1] }}|{{ l[::-1] }}|{{ s[1:4] }}|{{ s[::-1] }}|{{ s[-2:] }}|{{ s[100:] }}|{{ l[::2] }}|{{ l[-100:100] }}|{{ s[5:1:-2] }}|{{ l[5:] }}|{{ l[none:2] }}
{{ d.items() | list }}|{{ d.keys() | list }}|{{ d.values() | list }}|{{ d.get('a') }}|{{ d.get('q') }}|{{ d.get('q', 5) }}|{{ d.keys() }}|{{ d.items() }}
{{ x.y }}
{{ none_value.y }}|{{ s.nothing }}|{{ l.nothing }}
{{ none_value.y.z }}
{{ d.append }}|{{ l.append is defined }}
{{ l.append(1) }}
{{ s | upper }}|{{ s | lower }}|{{ 'straße' | upper }}|{{ 'ΑΣ ΑΣ.' | lower }}|{{ "they're bill's" | title }}|{{ "they're bill's".title() }}|{{ 'hELLO wORLD' | capitalize }}|{{ 'foo-bar (baz) [q]' | title }}
{{ spaced | trim }}|{{ 'xxaxx' | trim('x') }}|{{ spaced.strip() }}|{{ spaced.lstrip() }}|{{ spaced.rstrip() }}|{{ 'xyaxy'.strip('yx') }}|{{ n | trim }}
{{ spaced.split() }}|{{ 'a,b,,c'.split(',') }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a b  c'.split(None, 1) }}|{{ 'a b c'.split(maxsplit=1) }}|{{ ''.split() }}|{{ ''.split(',') }}|{{ 'a,b,c'.rsplit(',', 1) }}
{{ lines.splitlines() }}|{{ lines.splitlines(true) }}|{{ 'a\r\nb\rc'.splitlines() }}|{{ 'a-b-c'.partition('-') }}|{{ 'a-b-c'.rpartition('-') }}|{{ 'abc'.partition('-') }}
{{ s.startswith('He') }}|{{ s.endswith('🌍') }}|{{ s.startswith(('x', 'He')) }}|{{ 'abc'.removeprefix('a') }}|{{ 'abc'.removesuffix('c') }}|{{ 'abc'.removeprefix('x') }}
{{ s.find('w') }}|{{ s.find('q') }}|{{ s.rfind('l') }}|{{ s.index('漢') }}|{{ s.count('l') }}|{{ 'aaa'.count('aa') }}|{{ 'aaa'.count('') }}|{{ l.index(2) }}|{{ l.count(1) }}
{{ s.replace('l', 'L') }}|{{ s.replace('l', 'L', 1) }}|{{ 'aaa' | replace('a', 'b', 2) }}|{{ 'ab'.replace('', '-') }}|{{ 12321 | replace(2, 'x') }}
{{ ', '.join(['a', 'b']) }}|{{ words | join }}|{{ l | join('-') }}|{{ users | join(', ', attribute='name') }}|{{ e | join('x') }}|{{ 'abc' | join('.') }}
{{ 'abc'.isalpha() }}|{{ '12'.isdigit() }}|{{ 'a1'.isalnum() }}|{{ ' '.isspace() }}|{{ ''.isspace() }}|{{ 'ab'.islower() }}|{{ 'AB1'.isupper() }}|{{ '7'.zfill(3) }}|{{ '-7'.zfill(4) }}|{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '*') }}
{{ '{} {}'.format(1, 'x') }}|{{ '{1}{0}'.format('a', 'b') }}|{{ '{a} {b.name}'.format(a=1, b=users[0]) }}|{{ '{{}}'.format() }}|{{ '{:>5}|{:<5}|{:^5}|{:*^5}'.format('a', 'b', 'c', 'd') }}
{{ '{:.2f} {:5d} {:05d} {:+d} {:,} {:x} {:e} {:.1%}'.format(3.14159, 42, 42, 42, 1234567, 255, 12345.678, 0.256) }}|{{ '{:.3}'.format('abcdef') }}|{{ '{}'.format(none) }}|{{ '{:5}|{:5}'.format(1, 'a') }}
{{ '%s and %s' % ('a', 1) }}|{{ '%d%%' % 42 }}|{{ '%05.1f' % 3.14159 }}|{{ '%(a)s' % {'a': 'x'} }}|{{ '%-5s|%5s' % ('a', 'b') }}|{{ '%s' % l }}|{{ '%x' % 255 }}|{{ '%s %s' | format('a', 'b') }}|{{ '%d' % 3.9 }}|{{ '%+d' % 3 }}
{{ s | length }}|{{ l | count }}|{{ d | length }}|{{ missing | length }}|{{ e | length }}
{{ l | first }}|{{ l | last }}|{{ s | first }}|{{ [] | first }}|{{ d | first }}|{{ l | list }}|{{ s[:3] | list }}|{{ d | list }}
{{ l | sort }}|{{ words | sort }}|{{ words | sort(case_sensitive=true) }}|{{ l | sort(reverse=true) }}|{{ users | sort(attribute='age') | map(attribute='name') | list }}|{{ users | sort(attribute='name') | map(attribute='name') | list }}
{{ d | dictsort }}|{{ {'b': 2, 'A': 3, 'c': 1} | dictsort }}|{{ {'b': 2, 'A': 3, 'c': 1} | dictsort(by='value') }}|{{ {'b': 2, 'A': 3} | dictsort(true) }}|{{ {'b': 2, 'A': 3} | dictsort(reverse=true) }}
{{ words | unique | list }}|{{ words | unique(true) | list }}|{{ [1, 1.0, 2] | unique | list }}|{{ l | min }}|{{ l | max }}|{{ words | min }}|{{ users | max(attribute='age') }}|{{ l | sum }}|{{ users | sum(attribute='age') }}|{{ [] | sum }}|{{ l | sum(start=10) }}
{{ l | reverse | list }}|{{ s | reverse }}|{{ l | batch(2) | list }}|{{ l | batch(2, 'x') | list }}|{{ d | items | list }}|{{ missing | items | list }}
{{ l | map('string') | list }}|{{ words | map('upper') | join(',') }}|{{ users | map(attribute='age') | list }}|{{ users | map(attribute='tags', default='none') | list }}|{{ users | map(attribute='tags.0') | list }}|{{ words | map('replace', 'a', 'o') | list }}|{{ none_value | map('upper') | list }}
{{ l | select('odd') | list }}|{{ l | reject('equalto', 1) | list }}|{{ [0, 1, '', 'a'] | select | list }}|{{ users | selectattr('tags') | map(attribute='name') | list }}|{{ users | selectattr('age', 'gt', 26) | list | length }}|{{ users | rejectattr('name', 'equalto', 'bob') | map(attribute='name') | list }}|{{ users | selectattr('tags', 'defined') | list | length }}
{{ '42' | int }}|{{ '4.7' | int }}|{{ 'x' | int }}|{{ 'x' | int(5) }}|{{ 4.7 | int }}|{{ 'ff' | int(base=16) }}|{{ '0xff' | int(0, 16) }}|{{ ' 42 ' | int }}|{{ true | int }}|{{ '3.5' | float }}|{{ 'x' | float }}|{{ '1e3' | float }}|{{ 3 | float }}|{{ none | int }}
{{ 2.567 | round(2) }}|{{ 2.5 | round }}|{{ 3.5 | round }}|{{ 42 | round }}|{{ 2.1 | round(method='ceil') }}|{{ 2.9 | round(0, 'floor') }}|{{ -5 | abs }}|{{ 2.675 | round(2) }}
{{ missing | default('x') }}|{{ e | default('x') }}|{{ e | default('x', true) }}|{{ none_value | d('x') }}|{{ missing | default }}|{{ d.zz | default('y') }}
{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent('> ', blank=true) }}|{{ 'a' | indent(width=3, first=true) }}
{{ json | tojson }}|{{ l | tojson }}|{{ s | tojson }}|{{ none | tojson }}|{{ true | tojson }}|{{ tiny | tojson }}|{{ huge | tojson }}|{{ (1, 2) | tojson }}|{{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }}
{{ json | tojson(indent=2) }}|{{ l | tojson(indent=0) }}|{{ [] | tojson(indent=4) }}|{{ json | tojson(ensure_ascii=true) }}|{{ d | tojson(sort_keys=true) }}|{{ l | tojson(separators=(',', ':')) }}|{{ d | tojson(indent=1, separators=(',', '=')) }}|{{ {'é🌍': 'é🌍\x7f'} | tojson(ensure_ascii=true) }}
{{ missing | tojson }}
{{ s is string }}|{{ n is string }}|{{ n is number }}|{{ t is number }}|{{ f is float }}|{{ n is integer }}|{{ t is integer }}|{{ t is boolean }}|{{ t is true }}|{{ t is false }}|{{ 1 is true }}|{{ none_value is none }}|{{ d is mapping }}|{{ l is mapping }}
{{ l is sequence }}|{{ s is sequence }}|{{ d is sequence }}|{{ n is sequence }}|{{ l is iterable }}|{{ s is iterable }}|{{ n is iterable }}|{{ missing is iterable }}|{{ range is callable }}|{{ s is callable }}|{{ missing is defined }}|{{ s is defined }}|{{ missing is undefined }}|{{ d.zz is defined }}|{{ d.k is defined }}
{{ 3 is odd }}|{{ 4 is even }}|{{ 9 is divisibleby 3 }}|{{ 9 is divisibleby(2) }}|{{ 1 is eq 1 }}|{{ 1 is ne 2 }}|{{ 1 is lt 2 }}|{{ 2 is greaterthan 1 }}|{{ 1 is in [1, 2] }}|{{ 1 is not in l }}|{{ none is sameas none }}|{{ 'a' is lower }}|{{ 'A' is upper }}|{{ s is not none }}|{{ 'upper' is filter }}|{{ 'odd' is test }}|{{ 1 is equalto 1 and 2 is odd or true }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ x }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}
{% for x in l if x > 1 %}{{ loop.length }}{{ x }}{% else %}none{% endfor %}|{% for x in [] %}{% else %}none{% endfor %}|{% for x in missing %}{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}|{% for k in d %}{{ k }}{% endfor %}|{% for c in 'aé' %}{{ c }}.{% endfor %}|{% for a, (b, c) in [(1, (2, 3))] %}{{ a + b + c }}{% endfor %}|{% for k, v in d | dictsort %}{{ k }}{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}|{% for x in range(5, 0, -2) %}{{ x }}{% endfor %}|{{ range(3) | list }}|{{ range(3)[1] }}
{% for x in l %}{{ loop.changed(x > 1) }}{% for y in l %}{{ loop.depth }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% set x = 1 %}{% for y in l %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}|{% if true %}{% set z = 5 %}{% endif %}{{ z }}
{% set ns = namespace(a=1) %}{% for y in l %}{% set ns.a = ns.a + y %}{% endfor %}{{ ns.a }}|{{ ns.zz }}|{{ ns['a'] }}|{% set n2 = namespace({'q': 2}) %}{{ n2.q }}|{{ ns.a is defined }}{{ ns.b is defined }}
{% set a, b = 1, 2 %}{{ b }}{{ a }}|{% set c = 1, %}{{ c }}|{% set block %}x{{ a }}y{% endset %}{{ block }}|{% set up | upper %}abc{% endset %}{{ up }}|{{ block | length }}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, c='z') }}|{{ m(1, 5) }}|{{ m() }}|{{ m(b=3, a=9) }}|{{ m(1) | upper }}|{{ m(1) is string }}
{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * fact(n - 1) | int }}{% endif %}{% endmacro %}{{ fact(5) }}|{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, x=3) }}|{{ v() }}
{% macro outer() %}[{{ caller() }}]{% endmacro %}{% call outer() %}in{{ n }}{% endcall %}|{% macro each(l) %}{% for x in l %}{{ caller(x, 1) }}{% endfor %}{% endmacro %}{% call(x, y) each(l) %}<{{ x }}{{ y }}>{% endcall %}|{% macro maybe() %}{{ caller is defined }}{% endmacro %}{{ maybe() }}
{% macro m() %}{{ late }}{% endmacro %}{% set late = 'now' %}{{ m() }}|{% for x in l %}{% macro inside() %}{{ x }}{% endmacro %}{{ inside() }}{% endfor %}
{% filter upper %}abc{{ s }}{% endfilter %}|{% filter trim | replace('a', 'b') %}  aa  {% endfilter %}|{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}|{% generation %}gen{{ n }}{% endgeneration %}
{% raw %}{{ not }} {% parsed %}{% endraw %}|{# comment {{ x }} #}|{%- raw -%}  x  {%- endraw -%}  |
a{#- c -#} b|x {{- 'y' -}} z|x {%- if true -%} y {%- endif -%} z|x {%+ if true +%} y{% endif %}
{{ dict(a=1, b='x') }}|{{ dict([('a', 1)]) }}|{{ dict({'a': 1}, b=2) }}|{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}c|{% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %A %d %B %j') }}|{{ strftime_now('') }}
{{ raise_exception('no') }}
{{ '<b>' | safe }}|{{ '<b>' | safe + '<i>' }}|{{ '<i>' + ('<b>' | safe) }}|{{ ('<b>' | safe) ~ '<i>' }}
{{ true and 'x' or 'y' }}|{{ True }}{{ None }}{{ False }}|{{ 1 if none else 2 }}|{{ [1, 2,] }}|{{ {'a': 1,} }}|{{ () }}|{{ ((1)) }}
{{ 'a' if x is defined else 'b' }}|{{ (1, 2) + (3,) | list if false else 'z' }}|{{ 'x' in 'xyz' and 'a' not in 'xyz' }}|{{ not x is defined }}|{{ n is defined and n > 5 }}
{{ l | map('abs') | sum }}|{{ s.upper().lower() | replace('hello', 'bye') | title }}|{{ (l | sort)[0] }}|{{ l | sort | first }}|{{ users[0]['tags'][-1] | upper }}
{{ ('abc' | attr('upper'))() }}
{{ d | attr('a') }}|{{ users | selectattr('name', 'in', ['Ann', 'bob']) | list | length }}|{% set g = users | map(attribute='name') %}{{ g | list }}{{ g | list }}|{{ g | first }}
{{ d.b.real }}|{{ 'x'.y.z }}
{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}|{% for u in users %}{{ u.name ~ (', ' if not loop.last else '.') }}{% endfor %}
{{ [1, 2, 3][1:][0] }}|{{ {'a': {'b': [1, 2]}}.a.b[1] }}|{{ ('a', 'b') | join }}|{{ 'a'.__class__ }}|{{ l.__len__ }}
{% if e %}1{% elif n == 7 %}2{% else %}3{% endif %}|{% if d %}d{% endif %}|{% if [] %}x{% else %}y{% endif %}|{% if missing %}x{% else %}y{% endif %}|{% if 0.0 %}x{% else %}y{% endif %}|{% if ' ' %}x{% endif %}
{{ 10 | string ~ '%' }}|{{ 1.0 | string }}|{{ none | string }}|{{ l | string }}|{{ missing | string }}|{{ missing | upper }}|{{ missing ~ 'x' }}
{{ missing + 'x' }}
{{ 0.1 + 0.2 }}|{{ 1 / 3 }}|{{ 100.0 * 1.1 }}|{{ 1e100 }}|{{ 1e-5 }}|{{ 0.0001 }}|{{ 5e-324 }}|{{ -0.0 }}|{{ 1e15 }}|{{ 12345678901234567890.0 }}
""".strip("\n").split("\n")
# White space around tags, which a line each cannot show.
CASES += ["  {% if true %}\nline\n  {% endif %}\nend\n", "\n\n{{ n }}\n\n", "a\r\nb\r{{ n }}\r\n", "  {# c #}\n x\n", "x  {% if true %}\ny{% endif %}\n\nz",
          "{% for x in l %}\n  {{ x }}\n{% endfor %}\n", "  {%- for x in l %}\n    - {{ x }}\n  {%- endfor %}\n", "\t {%+ if true %}\n a\n{% endif +%}\n b", "{{ 'a\nb' }}\n",
          "{% set x %}\n  text\n{% endset %}\n[{{ x }}]", "{% macro m() %}\n  in\n{% endmacro %}\n[{{ m() }}]", "{% raw %}\n a\n{% endraw %}\nb", "{#- a -#}\n\n b", "\u00a0{% if true %}x{% endif %}\n"]


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime(2024, 7, 26, 13, 5, 9)


def expected(source):
    try:
        return chat_template_utils._compile_jinja_template(source).render(**VARIABLES)
    except Exception:
        return None


def main():
    chat_template_utils.datetime = Fixed
    folder = Path(__file__).parent / "chat_templates"
    folder.mkdir(exist_ok=True)
    cases = [{"template": source, "text": expected(source)} for source in CASES]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (folder / "cases.json").write_text(f'{{"variables": {json.dumps(VARIABLES, ensure_ascii=False)},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
