r"""One spelling for the many ways in which models write the same LaTeX.

Only presentation changes here: sizes, spaces, fonts' names, Unicode for commands, digit grouping that cannot be anything
else (`10,\!000`, `10{,}000`, `10\,000`). What a plain comma means is left to the reader.
"""

import re
import unicodedata
from collections.abc import Callable

_UNICODE = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ",
    "÷": r"\div ", "π": r"\pi ", "∞": r"\infty ", "√": r"\sqrt ", "∛": r"\sqrt[3]", "°": r"^\circ ", "º": r"^\circ ",
    "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "∈": r"\in ", "∪": r"\cup ", "∩": r"\cap ",
    "∅": r"\emptyset ", "±": r"\pm ", "∓": r"\mp ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℚ": r"\mathbb{Q}",
    "ℕ": r"\mathbb{N}", "ℂ": r"\mathbb{C}", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ",
    "λ": r"\lambda ", "μ": r"\mu ", "σ": r"\sigma ", "φ": r"\phi ", "ω": r"\omega ", "δ": r"\delta ", "Δ": r"\Delta ",
    "…": r"\ldots ", "′": "'", "″": "''", "’": "'", "“": '"', "”": '"', "∨": r"\lor ", "∧": r"\land ", "⌊": r"\lfloor ",
    "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "⟨": r"\langle ", "⟩": r"\rangle ", "€": r"\euro ",
    "£": r"\pounds ", "¢": r"\cents ", "¥": r"\yen ", "₹": r"\rupee ", "→": r"\to ", "⇒": r"\implies ",
    "∴": r"\therefore ", "✓": r"\checkmark ", "✔": r"\checkmark ", "■": r"\blacksquare ", "∎": r"\blacksquare ",
    "□": r"\square ", "、": ", ", "∖": r"\setminus ", "∣": "|", "⁄": "/", "∕": "/", "˚": r"^\circ ", "Ω": r"\Omega ",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_RAISED_FRACTION = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹]{1,9})[⁄∕/]([₀₁₂₃₄₅₆₇₈₉]{1,9})")
_ENCLOSED = "①-⒛⓪㉑-㉟㊱-㊿"
_BESIDE_ENCLOSED = re.compile(rf"(?<=[{_ENCLOSED}])\s*(?=[{_ENCLOSED}0-9])|(?<=[0-9])\s*(?=[{_ENCLOSED}])")

# `{}_{10}C_3` and `^{10}C_3`, and `{}_{10}P_3` for arrangements: `C(10, 3)` may be a point, `^{3}P_2` an atom's state.
_FROM = r"(?<![\w)\]}])(?:\{\s?\}\s?)?%s\s*(?:\{\s*(\d{1,6})\s*\}|(\d))"
_CHOSEN = r"_\s*(?:\{\s*(\d{1,6})\s*\}|(\d))"
_LETTER = r"\s*(?:%s|\\(?:mathrm|text)\s*\{\s*%s\s*\})\s*"

SWITCHES = (
    r"\\(?:displaystyle|textstyle|scriptstyle|scriptscriptstyle|tiny|scriptsize|footnotesize|small|normalsize|large|Large|"
    r"LARGE|huge|Huge|rm|bf|it|sf|tt|sc|sl|(?:rm|sf|tt)family|(?:bf|md)series|(?:it|sl|sc|up)shape)(?![A-Za-z])"
)
"""Sizes and faces that hold until they are switched off."""
COLOURS = r"\\(?:(?:text)?color|colorbox|fcolorbox\s*\{[^{}]*\})\s*\{[^{}]*\}"
_LEADING = re.compile(r"\\(?:to|therefore|implies|(?:long|Long)?rightarrow|Rightarrow)(?![A-Za-z])")
_GROUP = r"\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_BRACED = re.compile(rf"\\(?:under|over)brace({_GROUP})(?:\s*[_^]{_GROUP})?")
_TAG = re.compile(rf"\\(?:tag|label)\*?{_GROUP}|\\(?:nonumber|notag|ensuremath)(?![A-Za-z])")
_AT_THE_END = re.compile(r"(?<=.)\\(?:checkmark|blacksquare|square|Box|qed(?:here|symbol)?)(?![A-Za-z])\s*$")
_EMPHASIS = re.compile(r"(\*{1,3}|__|`+)([^*_`]+)\1")
_STRUCK_OUT = re.compile(r"(^|=)\s*~~([^~]+)~~\s*$")
_CHOSEN_FROM = re.compile(
    r"(?<![\w\\}])C\s*(?:\(\s*(?P<n1>\d{1,6})\s*,\s*(?P<k1>\d{1,6})\s*\)|"
    r"_\s*(?:\{(?P<n2>\d{1,6})\}|(?P<n3>\d))\s*\^\s*(?:\{(?P<k2>\d{1,6})\}|(?P<k3>\d))|"
    r"\^\s*(?:\{(?P<k4>\d{1,6})\}|(?P<k5>\d))\s*_\s*(?:\{(?P<n4>\d{1,6})\}|(?P<n5>\d)))"
)
# Ideographs that count things, after a number at the end: they add a unit and no value.
_COUNTER = re.compile(
    r"(?<=[\d)}])\s*(?:\\(?:text|mathrm)\s*\{\s*)?[个個只人次种種名条件本张位枚颗支辆间棵](?:\s*\})?$"
)
_YUAN = re.compile(r"(?<=[\d)}])\s*(?:\\(?:text|mathrm)\s*\{\s*)?元(?:\s*\})?$")
_METRES = re.compile(r"(\d[\d,]*\.\d+)\s*(m)([²³])")

FONTS = (
    r"\\(?:text|textbf|textit|textrm|textsf|texttt|textnormal|textup|textsc|emph|mbox|hbox|mathrm|mathbf|mathsf|mathit|mathtt|"
    r"mathcal|boldsymbol|bm|operatorname|underline|boxed|fbox)\*?\s*"
)
"""Commands that change how their argument looks, and nothing else."""
_FONT = re.compile(FONTS + r"(?=\{)")

_THIN = r"(?:\\[,:; ]|~|\\thinspace|[ ])"
_END = r"([^][(){}]{1,200}[,;][^][(){}]{1,200})"


def _digits(match: re.Match[str]) -> str:
    return re.sub(r"\D", "", match[0])


_Spelling = tuple[str, str | Callable[[re.Match[str]], str]]

_SPELLINGS: tuple[_Spelling, ...] = (
    # `10,\!000`, `10{,}000`, `2{,}5`, and digits in groups of three
    (r"(?<=\d)\s*(?:,\s*\\!|\\!\s*,|\{,\}\s*(?:\\!)?)\s*(?=\d{3}(?!\d))", ""),
    (r"(?<=\d)\{,\}(?=\d)", "."),
    (rf"(?<![\d.,])\d{{1,3}}(?:{_THIN}\d{{3}})+(?!\d)", _digits),
    (rf"(?<=\.)\d{{3}}(?:{_THIN}\d{{3}})*{_THIN}\d{{1,3}}(?!\d)", _digits),
    (r"\\\\\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|mm|cm|in)\s*\]", r"\\\\ "),
    (r"\\(?:left|right|middle|[bB]igg?[lrm]?)\s*\.", " "),
    (r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])", " "),
    (SWITCHES + r"|\\(?:limits|nolimits|hfill)(?![A-Za-z])", " "),
    (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
    (r"\\frac\s*(\d)(\d{2,3})(?![\d.])", r"\\frac{\1}{\2}"),
    (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
    (r"\\(?:leqslant|leq|leqq)(?![A-Za-z])", r"\\le "),
    (r"\\(?:geqslant|geq|geqq)(?![A-Za-z])", r"\\ge "),
    (r"\\lt(?![A-Za-z])", "<"),
    (r"\\gt(?![A-Za-z])", ">"),
    (r"<=", r"\\le "),
    (r">=", r"\\ge "),
    (r"!=", r"\\ne "),
    (r"\\neq(?![A-Za-z])", r"\\ne "),
    (r"\\not\s*=", r"\\ne "),
    (r"\\lbrace(?![A-Za-z])", r"\\{"),
    (r"\\rbrace(?![A-Za-z])", r"\\}"),
    (r"\\lbrack(?![A-Za-z])", "["),
    (r"\\rbrack(?![A-Za-z])", "]"),
    (r"\\(?:[lr]?vert|mid|[lr]?Vert)(?![A-Za-z])|\\\|", "|"),
    (r"\\(?:varnothing|O)(?![A-Za-z])", r"\\emptyset "),
    (r"\\(?:smallsetminus|backslash)(?![A-Za-z])", r"\\setminus "),
    (r"\\R(?![A-Za-z])|\\(?:mathbf|mathrm|bold)\{R\}|\\mathbb\s+R|\\mathbb(?=R)", r"\\mathbb{R}"),
    (r"\\(?:dots|cdots|dotsc|dotsb)(?![A-Za-z])|\.\.\.", r"\\ldots "),
    (r"\\(?:colon)(?![A-Za-z])|\{:\}", ":"),
    (r"\\(?:degree|degrees)(?![A-Za-z])", r"^\\circ "),
    (r"(?<=\d)\s*(?:\\deg(?![A-Za-z])|\^\s*(?:o(?![a-z])|\{\s*(?:\\text\s*\{\s*)?o\s*\}(?:\s*\})?))", r"^\\circ "),
    (r"\\(?:permil|perthousand|textperthousand)(?![A-Za-z])", "‰"),
    (r"\bper[\s~]+(?=(?:cent|mille)\b)", "per"),
    (r"\^\s*\{\s*\\circ\s*\}", r"^\\circ "),
    (r"\{([^{}\\]*)\\choose(?![A-Za-z])([^{}\\]*)\}", r"\\binom{\1}{\2}"),
    (_FROM % "[_^]" + _LETTER % ("C", "C") + _CHOSEN, r"\\binom{\1\2}{\3\4}"),
    (_FROM % "_" + _LETTER % ("P", "P") + _CHOSEN, r"\\frac{\1\2!}{(\1\2-\3\4)!}"),
    (r"\\(?:cap|cup)\s*\\?limits", r"\\cup "),
    (r"\\(?:bigcup)(?![A-Za-z])", r"\\cup "),
    (r"\\ast(?![A-Za-z])", "*"),
    (r"\*\*", "^"),
    (r"(?<=\d)\s*[xX]\s*(?=10\s*\^)", r"\\times "),
    (r"\\varepsilon(?![A-Za-z])", r"\\epsilon "),
    (r"\\varphi(?![A-Za-z])", r"\\phi "),
    (r"\\imath(?![A-Za-z])", "i"),
    (r"\\jmath(?![A-Za-z])", "j"),
    (r"\\(?:[vh]space|vspace)\*?\{[^{}]*\}|\\phantom\{[^{}]*\}", " "),
    (COLOURS, ""),
    (r"&\s*(?==)", ""),
    (r"\\(?:begin|end)\s*\{(?:aligned|align|gathered|split|equation|math|displaymath)\*?\}", " "),
)  # fmt: skip
_LAST_SPELLINGS: tuple[_Spelling, ...] = (
    (r"(?<!\\)\\!", ""),
    (r"(?<![\w^{}.\\\s\]])(\d+)\{(\d+)\}", r"\1\2"),
    (r"(?<!\\)\\[,;:! ]|\\(?:quad|qquad|enspace|thinspace|medspace|nobreakspace)(?![A-Za-z])|~", " "),
    (r"\s+", " "),
    (r"^ | $", ""),
    (  # the label of an option, `\text{(A)} 5`
        r"^\\(?:text|textbf|textrm|mathrm|mathbf)\s*\{\s*\([A-E]\)\s*\}\s*(?=[-\d.]|\\(?:frac|sqrt|pi|\$)(?![A-Za-z]))",
        "",
    ),
    (rf"(^|\\in|\\cup|=)\s*\]{_END}(?=[][])", r"\1(\2"),  # `]1,2[` is `(1,2)`
    (rf"([(\[]){_END}\[(?=\s*(?:$|\\cup|[.,;]))", r"\1\2)"),
)
_VECTOR = re.compile(r"\\(?:vec|mathbf|boldsymbol|bm|mathit)\s*(?:\{\s*([A-Za-z])\s*\}|([A-Za-z])(?![A-Za-z]))")


_CASES = re.compile(r"\\begin\s*\{cases\}((?:(?!\\begin|\\end|&|\\text).)*)\\end\s*\{cases\}")
_FIRST, _LAST = (
    tuple((re.compile(pattern), replacement) for pattern, replacement in table)
    for table in (_SPELLINGS, _LAST_SPELLINGS)
)


def normalize(text: str) -> str:
    """The same answer with one spelling for each construct."""
    text = _STRUCK_OUT.sub(r"\1\\text{not }\2", without_marks(text))
    text = re.sub(r"(?<!\\)\\$", "", _replace_unicode(text).strip())
    text = _drop_delimiters(text).strip()
    text = without_ornaments(_LEADING.sub("", text, count=1) if _LEADING.match(text) else text)
    for pattern, replacement in _FIRST:
        text = pattern.sub(replacement, text)
    text = _CASES.sub(
        lambda cases: cases[1] if "=" in cases[1] else cases[0], _binomials(text)
    )  # a system of equations
    text = _plain_letters(_one_basis(text))
    for pattern, replacement in _LAST:
        text = pattern.sub(replacement, text)
    return text


def without_ornaments(text: str) -> str:
    r"""Without `\tag{1}`, a final `\blacksquare`, the brace and the label of `\underbrace{5}_{\text{answer}}`."""
    return _AT_THE_END.sub("", _BRACED.sub(r"\1", _TAG.sub(" ", text)).rstrip()) if "\\" in text else text


def without_marks(text: str) -> str:
    """Without emphasis around the whole, and without an ideographic full stop."""
    text = text.strip()
    if text.isascii():
        return match[2] if (match := _EMPHASIS.fullmatch(text)) else text
    text = text.rstrip("。").rstrip()
    if match := _EMPHASIS.fullmatch(text):
        text = match[2].rstrip("。")
    text = _YUAN.sub(r"\\text{ yuan}", _COUNTER.sub("", text))
    return _METRES.sub(r"\1\\text{ \2}\3", text) if _METRES.fullmatch(text) else text


def _binomials(text: str) -> str:
    """`C(10, 3)` and `C_{10}^{3}` as binomials, in a text without variables or other letters, where n is not below k."""
    if "C" not in text:
        return text

    def binomial(match: re.Match[str]) -> str:
        values = [int(value) for value in match.groups() if value]
        n, k = values if match[0].lstrip("C ")[0] != "^" else reversed(values)
        return rf"\binom{{{n}}}{{{k}}}" if n >= k else match[0]

    found = _CHOSEN_FROM.sub(binomial, text)
    plain = re.sub(r"\\(?:text|mathrm)\s*\{[^{}]*\}|\\[A-Za-z]+", " ", found)
    return text if re.search(r"[A-Za-z]", plain) else found


def without_fonts_and_spaces(normalized: str) -> str:
    """Normalized LaTeX without fonts, and without spaces except between digits."""
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", _FONT.sub("", normalized)).strip(" .,;")


def plain_text(text: str) -> str:
    """The text by which two answers are compared as texts: the same for two spellings of one answer."""
    return without_fonts_and_spaces(normalize(text))


def _one_basis(text: str) -> str:
    r"""`\hat{i}` for the unit vectors in all their fonts; a bold i alone may be the imaginary unit."""
    fonts = r"\\(?:hat|vec|widehat|overrightarrow|mathbf|boldsymbol|bm|textbf)"
    basis = re.compile(rf"{fonts}\s*(?:\{{\s*(?:{fonts}\s*)?(?:([ijk])|\{{\s*([ijk])\s*\}})\s*\}}|([ijk])(?![A-Za-z]))")
    letters = {match[1] or match[2] or match[3] for match in basis.finditer(text)}
    return basis.sub(r"\\hat{\1\2\3}", text) if letters & {"j", "k"} else text


def _plain_letters(text: str) -> str:
    r"""`a` for `\vec{a}` and `\mathbf{a}`, unless a plain `a` stands beside it."""
    rest = re.sub(r"\\(?:begin|end)\s*\{[a-z]+\}|\\[A-Za-z]+", " ", _VECTOR.sub(" ", text))
    return _VECTOR.sub(lambda match: match[0] if (letter := match[1] or match[2]) in rest else f" {letter} ", text)


def compatible(text: str) -> str:
    """NFKC, in which digits in circles or brackets stay numbers of their own: `①③` is 1 and 3, not 13."""
    return unicodedata.normalize("NFKC", _BESIDE_ENCLOSED.sub(", ", text))


def _in_letters(character: str) -> str:
    r"""`\frac{1}{2}` for `½`, `\text{ m²}` for `㎡`, `°C` for `℃`: signs whose parts NFKC would run together."""
    kind, _, codes = unicodedata.decomposition(character).partition(" ")
    parts = "".join(chr(int(code, 16)) for code in codes.split())
    numerator, _, denominator = parts.partition("⁄")
    if denominator:
        return rf"\frac{{{numerator}}}{{{denominator}}}"
    return rf"\text{{ {parts}}}" if kind == "<square>" else parts if character in "℃℉" else character


def _replace_unicode(text: str) -> str:
    if text.isascii():
        return text
    text = _RAISED_FRACTION.sub(
        lambda match: rf"\frac{{{match[1].translate(_SUPERSCRIPTS)}}}{{{match[2].translate(_SUBSCRIPTS)}}}",
        unicodedata.normalize("NFC", text),
    )
    text = "".join(character if character.isascii() else _in_letters(character) for character in text)
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda match: "^{" + match[0].translate(_SUPERSCRIPTS) + "}", text)
    text = re.sub("[₀₁₂₃₄₅₆₇₈₉]+", lambda match: "_{" + match[0].translate(_SUBSCRIPTS) + "}", text)
    return compatible("".join(_UNICODE.get(character, character) for character in text))


def _drop_delimiters(text: str) -> str:
    r"""Removes `\(`, `\[` and pairs of dollar signs; a lone dollar sign is currency."""
    text = re.sub(r"(?<!\\)\\[()]|(?<!\\)\\\[|(?<!\\)\\\]", " ", text)
    dollars = re.findall(r"(?<!\\)\$", text)
    if len(dollars) % 2 == 0:
        return re.sub(r"(?<!\\)\$", " ", text)
    return re.sub(r"(?<!\\)\$", r"\\$", text)
