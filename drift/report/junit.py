"""The report as JUnit XML, for CI: a suite for each node, a case for each rule that judged it."""

import re
from collections.abc import Collection, Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.registry import RULES, is_unread, why_not_judged
from gpu_node.drift.engine.rule import NO_JOBS
from gpu_node.drift.report.formats import Page
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.view import View, switch
from gpu_node.inventories.escape import visible

# The case of every node that says whether it answered.
_ANSWER = "answer"
_NO_ANSWER = "error"
# Characters of Unicode that XML 1.0 has not: `visible` leaves them, as they are no controls.
_NO_XML = re.compile("[\ufffe\uffff]")
_COUNTED = ("tests", "failures", "errors")


def parts(view: View, page: Page) -> Iterator[str]:
    """Yield the report in ASCII: other characters are references, which any encoding takes."""
    report = view.report
    cases = {name: _cases(name, report) for name in report.hosts}
    suites = [_suite(name, each, report.generated) for name, each in cases.items()]
    if view.why:
        of_report = _case("report", _ANSWER)
        _problem(of_report, _NO_ANSWER, "unknown", view.why, view.why)
        suites.append(_suite("report", [of_report], report.generated))
    counts = {word: str(sum(int(each.get(word, "0")) for each in suites)) for word in _COUNTED}
    whole = Element("testsuites", {"name": _text(f"gpu-node {report.inventory}"), **counts})
    whole.extend(suites)
    indent(whole)
    written: bytes = tostring(whole, "us-ascii", xml_declaration=False)
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n{written.decode("ascii")}\n'


def _suite(name: str, cases: Collection[Element], generated: str) -> Element:
    suite = Element("testsuite", {"name": _text(name), "tests": str(len(cases))})
    for word, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(word, str(sum(case.find(kind) is not None for case in cases)))
    suite.set("timestamp", generated)
    suite.extend(cases)
    return suite


def _cases(name: str, report: Report) -> Collection[Element]:
    """Return the cases of a node: what cannot be read is an error, a wrong value a failure."""
    host = report.hosts[name]
    cases = {_ANSWER: _case(name, _ANSWER)}
    if host.error is not None:
        _problem(cases[_ANSWER], _NO_ANSWER, host.status, host.error, host.error)
    why = {rule: why_not_judged(rule, host.judged) for rule in RULES if host.judged}
    findings: dict[str, list[Finding]] = {rule: [] for rule in why if not why[rule]}
    for finding in host.findings:
        findings.setdefault(finding.rule, []).append(finding)
    for rule, found in findings.items():
        cases[rule] = _case(name, rule)
        _judge(cases[rule], found)
    skipped = {off.rule: switch(off) for off in host.off}
    skipped |= {rule: NO_JOBS for rule in why if why[rule] == NO_JOBS}
    for rule, message in skipped.items():
        if rule not in cases:
            cases[rule] = _case(name, rule)
            SubElement(cases[rule], "skipped", {"message": _text(message)})
    return cases.values()


def _case(node: str, name: str) -> Element:
    return Element("testcase", {"classname": _text(node), "name": _text(name)})


def _judge(case: Element, findings: list[Finding]) -> None:
    """Add to the case of a rule what it found; one of severity info fails no case."""
    wrong = [each for each in findings if each.severity != "info"]
    if wrong:
        kind = "error" if is_unread(wrong[0].rule) else "failure"
        severity = "error" if any(each.severity == "error" for each in wrong) else "warning"
        message = "; ".join(f"{each.subject}: {each.found}" for each in wrong)
        _problem(case, kind, severity, message, "\n\n".join(map(_lines, wrong)))
    if noted := [each for each in findings if each.severity == "info"]:
        SubElement(case, "system-out").text = "\n\n".join(map(_lines, noted))


def _problem(case: Element, kind: str, severity: str, message: str, text: str) -> None:
    attributes = {"type": severity, "message": _text(message)}
    SubElement(case, kind, attributes).text = "\n".join(map(_text, text.split("\n")))


def _lines(finding: Finding) -> str:
    root = finding.root
    lines = {
        "found": f"{finding.subject}: {finding.found}",
        "wanted": finding.wanted,
        "cause": finding.cause,
        "fix": finding.fix if not finding.fixable else f"gpu-node deploy, or: {finding.fix}",
        "because of": f"{root.rule} on {root.node} ({root.subject})" if root else "",
    }
    return "\n".join(f"{label}: {_text(text)}" for label, text in lines.items() if text)


def _text(words: str) -> str:
    return _NO_XML.sub(lambda match: ascii(match[0])[1:-1], visible(words))
