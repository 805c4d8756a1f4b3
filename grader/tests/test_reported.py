"""Spellings that other graders' users reported, each with its near misses."""

import pytest

from answer_grader import grade

ACCEPTED = {
    "words beside a value": {
        "integer 7": [r"7\text{ exactly}", r"7\text{ apples}"],
        "math 7": [r"\approx 7", r"\text{about }7", r"x \approx 7", r"7\text{ problems}"],
    },
    "sizes and faces": {
        "integer 7": [r"\huge{7}", r"\LARGE 7", r"{\tiny 7}", r"\bfseries 7"],
        r"math \frac12": [r"\Huge{\frac12}", r"\small 0.5"],
        "choice B": [r"\small B", r"\textsc{B}", r"{\Large B}"],
    },
    "colour boxes": {
        "integer 7": [r"\colorbox{yellow}{7}", r"\fcolorbox{red}{white}{7}"],
        "math 0.5": [r"\colorbox{yellow}{$\frac12$}"],
        "choice B": [r"\colorbox{yellow}{B}", r"\fcolorbox{A}{C}{B}"],
    },
    "emphasis": {"integer 42": ["**42**", "*42*", "__42__", "`42`", "**42。**"], "math 0.5": [r"**\frac{1}{2}**"]},
    "endings": {
        "choice C": ["C,", "C;", "C。", "C，", "C、"],
        "integer 42": ["42。", "42,"],
        "math 1, 2": ["1、2"],
        "integer 5": [r"5\text{个}", "5个", "5元"],
        r"math 5\text{ yuan}": ["5元"],
    },
    "a named letter": {
        "choice C": [
            r"\text{Option C}",
            r"\text{Answer: C}",
            r"\text{Option }C",
            "Option (C).",
            r"\text{The answer is C}",
        ],
        "choice B": [r"\text{choice B}", r"\textbf{The correct option is (b)}"],
    },
    "signs around": {
        "integer 42": [r"42\checkmark", "42✓"],
        "integer 7": [r"\to 7", r"\therefore 7", "⇒ 7"],
        "math 7": [r"\therefore x = 7", r"\implies 7"],
    },
    "binomials": {
        "integer 120": ["C(10,3)", "C_{10}^{3}", "C_{10}^3", "C^{3}_{10}"],
        "math 45": [r"C_{10}^{2}\text{ ways}"],
    },
    "square metres": {
        "math 1000.99": ["1000.99 m²", "1,000.99m²"],
        r"math 1000.99\text{ m}^2": ["1000.99 m²", "1,000.99m²"],
    },
    "an aside": {
        "integer 42": [r"42\ (=6\cdot 7)"],
        "math 42": [r"42 (= 6 \times 7)"],
        "math 1/2": [r"0.5\ (=\frac12)"],
    },
    "digits after a fraction": {r"math \frac{9}{19}": [r"\frac919"], "math 0.5": [r"\frac12"]},
    "brackets": {"integer 42": ["(42)", "{42}"], "choice C": ["[C]"], "math 14": ["2[3+4]"], "math [1, 2]": ["[1,2]"]},
    "digits in circles": {
        "math ①③④": ["①③④", "①、③、④", "① ③ ④", "③①④", "⑴⑶⑷"],
        "math 1, 3, 4": ["①③④"],
        "integer 1": ["①"],
        "math 134": ["１３４"],
    },
    "grouping": {"math 1,00,000": ["1,00,000"], "math 1000_2": ["1,000_2"], "math 100200050": ["100,200,050"]},
    "a named result": {
        r"math \frac72": [
            *(r"\mathbb{E}[X]=\frac72", r"\operatorname{E}(X)=3.5", r"\mathbb{E}X=\frac72", r"\mathrm{Var}(X)=\frac72"),
            *(r"\Pr[X>2]=\frac72", r"\mathbb{E}[X\mid Y]=\frac72", r"\int_0^1 f(x)\,dx=\frac72", r"E(X)=\frac72"),
        ],
        "integer 4": [
            *(r"\sigma^2=4", r"\sigma_X^2=4", r"|z|^2=4", r"\left|z\right|^{2} = 4", r"\|\mathbf{v}\|=4", "AB^2=4"),
            *("x^*=4", r"x^{\star}=4", "a_{n_k}=4", r"V_{\text{cone}}=4", r"\hat{\beta}_1=4", "|A\\cup B|=4"),
            *(r"\lim_{x\to0}f(x)=4", r"\max_{x\in[0,1]}f(x)=4", r"\sin^2 A=4", r"\operatorname{ord}_7(3)=4"),
        ],
        "math 6": [r"\text{Area}(ABC)=6", r"\text{area of }\triangle ABC=6", r"[\triangle ABC]=6", r"\#S=6"],
        r"math \mathbb{E}[X]=\frac72": ["3.5", "E(X)=3.5"],
        r"math \sigma^2=4": ["4"],
    },
    "swapped sides": {
        "integer 5": ["5=f(2)", "5=AB", "5=m+n", r"5=\text{Area}(ABC)", "5=|z|^2", "2+3=5=x"],
        "math f(2)=5": ["5=f(2)"],
        r"math \frac72=\mathbb{E}[X]": ["3.5", r"\mathbb{E}[X]=\frac72"],
        "math y=2x+1": ["2x+1=y", "2x+1=f(x)"],
        r"math \angle A=\angle B": [r"\angle B=\angle A"],
        "math (1,2)": ["(1,2)=(x,y)"],
    },
    "general solutions": {
        reference: [
            *(
                r"\frac{\pi}{4}+n\pi\ (n\in\mathbb{Z})",
                r"\frac{\pi}{4}+k\pi, k\in\mathbb Z",
                "x=\\frac{\\pi}{4}+nπ, n∈ℤ",
            ),
            *(r"\left\{\frac{\pi}{4}+n\pi : n\in\mathbb{Z}\right\}", r"x\in\{\frac{\pi}{4}+k\pi \mid k\in\mathbb{Z}\}"),
            *(r"\{x \mid x=\frac{\pi}{4}+k\pi, k\in\mathbb{Z}\}", r"\frac{\pi}{4}+m\pi \text{ for any integer } m"),
            *(
                r"\frac{\pi}{4}+n\pi,\text{ where } n \text{ is an integer}",
                r"\frac{\pi}{4}+n\pi\ \forall n\in\mathbb{Z}",
            ),
        ]
        for reference in (
            *(r"math \frac{\pi}{4}+k\pi", r"math x=\frac{\pi}{4}+k\pi\ (k\in\mathbb{Z})"),
            *(r"math \{\frac{\pi}{4}+k\pi \mid k\in\mathbb{Z}\}", r"math \frac{\pi}{4}+k\pi \text{ for integer } k"),
        )
    },
    "the real root of a negative number": {r"math -\sqrt[3]{\pi}": [r"(-\pi)^{1/3}", r"\sqrt[3]{-\pi}"]},
    "the set that a variable is taken from": {
        r"math \{x\in\mathbb{Z}\mid x>3\}": [r"\mathbb{Z}\cap(3,\infty)"],
        r"math (3,5)": [r"\{x\in(0,5)\mid x>3\}"],
    },
    "units in one sign or in words": {
        "math 20": ["20℃"],
        r"math 20^\circ\text{C}": ["20℃", "20 ℃"],
        "math 5": ["5㎡", "5‰", r"5\text{ per cent}"],
        r"math 5\text{ m}^2": ["5㎡"],
        r"math 5\text{ km}": ["5㎞"],
        r"math 5\text{ m/s}": ["5㎧"],
        "math 0.005": ["5‰", r"5\text{ per mille}"],
        r"math 0.5\%": ["5‰"],
        r"math 45^\circ": ["45^o", "45˚"],
        r"math 5\%": [r"5\text{ per cent}", "5 per cent"],
        r"math 4:30\text{ p.m.}": ["4:30㏘"],
        r"math 5\Omega": ["5Ω", "5\u2126"],
    },
    "the fraction slash": {
        r"math \frac12": ["1⁄2", "¹⁄₂", "1∕2"],
        r"math \frac{11}{6}": ["1⅚", "1 5⁄6"],
        "math 11/2": ["11⁄2"],
    },
    "ornaments": {
        "integer 5": [
            *(r"5\tag{1}", r"5 \tag*{(1)}", r"x=5\tag{$*$}", r"5\blacksquare", r"5\ \square", "5 ∎", r"5.\qed"),
            *(r"\underbrace{5}_{\text{answer}}", r"\overbrace{2+3}^{5}", r"\ensuremath{5}", r"\ensuremath{x=5}"),
        ],
        "math 7": [r"\underbrace{3}_{a}+\underbrace{4}_{b}"],
        "choice B": [r"\ensuremath{B}", r"B\tag{1}", r"B\blacksquare", r"\underbrace{B}_{\text{answer}}"],
    },
    "paired signs": {
        r"math 22\pm8\sqrt6": [r"22\pm8\sqrt6, 22\mp8\sqrt6", r"x=22\pm8\sqrt6, x=22\mp8\sqrt6"],
        r"math 22\pm8\sqrt6, 22\mp8\sqrt6": [r"22+8\sqrt6, 22-8\sqrt6"],
        "math (1,-1), (-1,1)": [r"(\pm1,\mp1)", r"x=\pm1, y=\mp1"],
    },
}
REFUSED = {
    "sizes and faces": {"integer 7": [r"\huge{8}", r"\hugely 7"], "choice B": [r"\small C", r"\smallest B"]},
    "colour boxes": {"integer 7": [r"\colorbox{7}{8}"], "choice C": [r"\fcolorbox{A}{C}{B}"]},
    "emphasis": {"integer 42": ["2**42", "**42", "**4**2", "**24**"], "math 16": ["**4**2"]},
    "endings": {
        "choice C": ["C,D", "C, D", "C;D", "D,"],
        "math 12": ["1、2"],
        "math 1234": ["1、234、5"],
        "integer 5": [r"5\text{不}", r"5\text{万}", r"5\text{十}", "5对"],
        r"math 5\text{ dollars}": ["5元"],
    },
    "a named letter": {
        "choice C": [
            *(r"\text{Option C or D}", r"\text{not option C}", r"\text{Options C and D}", r"\text{C is wrong}"),
            *(r"\text{Vitamin C}", r"\text{Option C}_2", r"\text{Except option C}", "OptionC", r"\text{Answer: D}"),
        ],
        "choice A": [r"\text{A choice}", r"\text{Answer: A, B}", r"\text{Answer: A B}", r"\text{Answer: none}"],
    },
    "signs around": {
        "math 7": [r"x \to 7", r"5 \to 7", r"7 \to 8"],
        "integer 7": [r"5 \to 7", r"\boxtimes 7", r"\not\to 7", r"7\times"],
    },
    "binomials": {
        "math 720": ["C(10,3)"],
        "math 0": ["C(3,10)", "C_3^{10}"],
        "math 120": ["B(10,3)", "(10,3)"],
        "math C(4,1)": ["C(4,3)", "4"],
        "math C_1^2 + 1": ["C_1^2 + C_2^2"],
    },
    "square metres": {r"math 1000.99\text{ m}": ["1000.99 m²"], r"math 1000.99\text{ cm}^2": ["1,000.99m²"]},
    "an aside": {"math 42": [r"42\ (=6\cdot 8)"], "integer 42": [r"42\ (=6\cdot 8)"], "math 48": [r"42\ (=6\cdot 8)"]},
    "digits after a fraction": {"math 81": [r"\frac919"], r"math \frac{91}{9}": [r"\frac919"]},
    "number words behind a number": {
        "integer 7": [r"7\text{ halves}", r"7\text{ approximately}", r"7\text{ out of ten}", r"7\text{ probably}"],
        "math 7": [
            *(r"\text{seven twentieths}", r"\text{seven point five}", r"7\text{ (guess)}"),
            *(r"7\text{ approximately}", r"7\text{ probably}", r"7\text{ perhaps}", r"\approx 7.01"),
        ],
        "integer 5": [r"5\text{ crore}", r"5\text{ root two}", r"5\text{ pi}"],
    },
    "a remainder that is not taken": {"math 7": [r"7 \bmod 4"], "math 1024": [r"2^{10} \bmod 1000"]},
    "doubt": {"integer 7": ["7?", "7 ?", "?"], "math 7": ["7?", "x=7?"], "choice C": ["C?"]},
    "brackets": {
        "integer 42": ["[42]", r"\left[42\right]"],
        "math 42": ["[42]", "x=[42]"],
        "math 3": ["[3.7]", "[1+2]"],
    },
    "digits in circles": {
        **{f"{kind} 134": ["①③④", "⑴⑶⑷", "[1][3][4]", "①34", "❶❸❹"] for kind in ("math", "integer")},
        "math ①③④": ["134", "①③", "①③⑤"],
        "math 12": ["⑴⑶⑷", "①②"],
    },
    "grouping": {
        "math 1, 0, 0": ["1,00,000"],
        "math 1, 0": ["1,00", "1,000"],
        r"math \{1,0\}": [r"\{1,000\}", "1,00,000"],
        "math (1,0,0)": ["(1,00,000)"],
        "math 1000, 0": ["1,000,00"],
        "math 1,00,000": ["1, 0, 0"],
    },
    "a named result": {
        "integer 4": [
            *("x^2=4", "2\\sigma^2=4", r"\sigma^2=\pm4", r"\sigma^2\approx4", "|z-1|^2=4", "|2z|^2=4", r"\sigma^2>4"),
            *(
                r"\mathbb{E}[X]+1=4",
                r"2\mathbb{E}[X]=4",
                r"\mathbb{E}[X]\ne4",
                r"\lim_{x\to0}f(x)=5",
                "x^*=5",
                r"\sqrt{x}=4",
            ),
        ],
        "math 4": ["x^2=4", "a_1^2=4", "x^2+y^2=4", r"\theta^2+1=4", "2^x=4", r"\mathbb{E}[X]=\mathbb{E}[Y]+4"],
        "math 12": [r"\text{Area}(ABC)=2\text{Area}(DEF)=12", r"2\text{Area}(ABC)=12"],
        r"math \sigma^2=4": [r"\sigma=2", r"\mu=4", "2"],
        r"math \mathbb{E}[X]=\frac72": ["E(Y)=3.5", r"\mathbb{V}[X]=3.5"],
        "math x^2=9": ["9"],
    },
    "swapped sides": {
        "integer 5": ["5=2x", "5=x+1", "6=f(2)", "5=6", "5=7=x", r"5=\text{wrong}", r"5=\text{not }x", r"5=\text{six}"],
        "math f(2)=5": ["5=f(3)", "2=f(5)"],
        "math x=5": ["5=y"],
        r"math \angle A=\angle B": [r"\angle C=\angle A"],
        "math (1,2)": ["(2,1)=(x,y)"],
    },
    "general solutions": {
        reference: [
            *(r"\frac{\pi}{4}+2n\pi\ (n\in\mathbb{Z})", r"\frac{\pi}{3}+n\pi\ (n\in\mathbb{Z})", r"\frac{\pi}{4}"),
            *(
                r"\frac{\pi}{4}+k\pi\ (k\in\mathbb{N})",
                r"\frac{\pi}{4}+k\pi\ (k\notin\mathbb{Z})",
                r"\frac{\pi}{4}+x\pi",
            ),
            *(r"\{\frac{\pi}{4}+2n\pi : n\in\mathbb{Z}\}", r"\frac{\pi}{4}+n\pi, k\in\mathbb{Z}", r"\mathbb{Z}"),
            *(r"\frac{\pi}{4}+k\pi, k\in\mathbb{Z}^+", r"\frac{\pi}{4}+k\pi \text{ for positive integers } k"),
        ]
        for reference in (
            *(r"math \frac{\pi}{4}+k\pi, k\in\mathbb{Z}", r"math \{\frac{\pi}{4}+k\pi \mid k\in\mathbb{Z}\}"),
            r"math x=\frac{\pi}{4}+k\pi\ (k\in\mathbb{Z})",
        )
    }
    | {
        r"math \{x^2 \mid x>1\}": ["x>1", r"\{x^3 \mid x>1\}"],
        r"math \mathbb{R}": [r"\{(x,x^2) \mid x\in\mathbb{R}\}"],
        "math 3k": ["3n"],
        r"math ak\pi, k\in\mathbb{Z}": [r"bn\pi, n\in\mathbb{Z}", r"an\pi, a\in\mathbb{Z}"],
    },
    "the set that a variable is taken from": {
        r"math \{x\in\mathbb{Z}\mid x>3\}": [r"\{x\in\mathbb{Q}\mid x>3\}", r"\{x\in[0,5]\mid x>3\}", "(3,\\infty)"],
    },
    "units in one sign or in words": {
        r"math 20^\circ\text{C}": ["20℉", "21℃"],
        r"math 5\text{ m}^2": ["5㎥", "5㎠"],
        "math 0.05": ["5‰"],
        "math 5": ["0.5‰"],
        r"math 5\%": ["5‰", r"5\text{ cents}", r"5\text{ per cm}", r"6\text{ per cent}"],
        r"math 5\text{ cents}": [r"5\text{ per cent}"],
        "integer 5": ["5‰", r"5\text{ per cent}"],
        r"math x^\circ": ["x^o"],
    },
    "the fraction slash": {r"math \frac12": ["1⁄3", "12"], r"math \frac32": ["11⁄2"], "math 15/6": ["1⅚"]},
    "ornaments": {
        "integer 5": [
            r"6\tag{5}",
            r"\tag{5}",
            r"\underbrace{6}_{5}",
            r"5\blacksquare5",
            r"\blacksquare",
            r"\ensuremath{6}",
        ],
        "integer 10": [r"\underbrace{1+1+\cdots+1}_{10}", r"1\tag{0}"],
        "choice B": [r"C\tag{B}", r"\underbrace{C}_{B}", r"\tag{B}"],
    },
    "paired signs": {
        r"math 22\pm8\sqrt6": [
            r"22\pm8\sqrt6, 22\mp8\sqrt5",
            r"22\pm8\sqrt6, 23\mp8\sqrt6",
            r"y=22\pm8\sqrt6, x=22\mp8\sqrt6",
        ],
        r"math 22\pm8\sqrt6, 22\mp8\sqrt6": [r"22\pm8\sqrt6, 22\pm8\sqrt6"],
        r"math (22\pm8\sqrt6, 22\mp8\sqrt6)": [r"(22\pm8\sqrt6, 22\pm8\sqrt6)"],
        r"math x=\pm1, y=\mp1": [r"x=\pm1, y=\pm1", r"(\pm1,\pm1)"],
    },
}


def cases(table: dict[str, dict[str, list[str]]]) -> list[tuple[str, str, str]]:
    """Answer, kind and reference of every case."""
    return [
        (answer, *asked.split(" ", 1))  # type: ignore[misc]
        for kinds in table.values()
        for asked, answers in kinds.items()
        for answer in answers
    ]


@pytest.mark.parametrize(("answer", "kind", "reference"), cases(ACCEPTED))
def test_accepted(answer: str, kind: str, reference: str) -> None:
    assert grade(rf"\boxed{{{answer}}}", reference, kind).correct  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "kind", "reference"), cases(REFUSED))
def test_refused(answer: str, kind: str, reference: str) -> None:
    assert not grade(rf"\boxed{{{answer}}}", reference, kind).correct  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["math", "integer"])
def test_ish_and_struck_out_values_are_no_answers(kind: str) -> None:
    for answer in (r"7\text{ish}", "7ish", r"7\text{-ish}", "~~7~~", "x = ~~7~~", "**~~7~~**"):
        assert not grade(rf"\boxed{{{answer}}}", "7", kind), answer
    for answer in (r"7\text{ fish}", "7~", "~7~", r"7~~\text{apples}", "$~~7~~$"):
        assert grade(rf"\boxed{{{answer}}}", "7", kind), answer


def test_a_struck_out_letter_is_none() -> None:
    problem = "Which? (A) $1$ (B) $2$ (C) $3$ (D) $4$"
    for answer in ("~~C~~", "~~Option C~~", r"\text{~~C~~}"):
        assert not grade(rf"\boxed{{{answer}}}", "C", "choice"), answer
        assert not grade(rf"\boxed{{{answer}}}", "C", problem=problem), answer
    for answer in ("~C~", r"\text{Option~C}"):
        assert grade(rf"\boxed{{{answer}}}", "C", "choice"), answer
