from benchmarks.drafts_and_rules import PREPARED, forms
from service.emitters.rules import RULES
from service.operators.catalogue import catalogue_names, load_operator


def test_every_rule_has_a_form_on_some_operator():
    found = {form for name in catalogue_names() for form, _ in forms(load_operator(name), "draft")}
    assert found == {"seed", "draft", *RULES}
    assert PREPARED.keys() <= RULES.keys()


def test_no_draft_no_form():
    assert "draft" not in dict(forms(load_operator("gelu"), ""))
