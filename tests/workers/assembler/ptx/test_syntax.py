from workers.assembler.ptx.syntax import Block, Function, Instruction, Label


def test_an_opcode_splits_into_head_and_modifiers() -> None:
    item = Instruction("cp.async.bulk.shared::cta.global")
    assert item.head == "cp"
    assert item.modifiers == ("async", "bulk", "shared::cta", "global")
    assert Instruction("ret").modifiers == ()


def test_a_function_lists_its_instructions_in_order() -> None:
    first, second = Instruction("mov.b32"), Instruction("ret")
    body = Block((Label("a"), Block((first,)), second))
    assert Function("f", body=body).instructions == (first, second)
    assert Function("f").instructions == ()
