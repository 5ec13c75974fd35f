"""Documents of access: what a token's name may be, and that nothing quotes a secret."""

import pytest
from pydantic import ValidationError

from kernelreef.models import Token
from service.api.access_schemas import LoginRequest, TokenRequest
from service.security.scopes import Scope


@pytest.mark.parametrize("name", ["ci", "Ada's laptop", "\u00e4\u4e2d", "x" * 64])
def test_a_name_is_for_people(name: str) -> None:
    assert TokenRequest(name=name, scopes=[Scope.READ]).name == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "\x1b[31mred", "\0"])
def test_but_not_any_text(name: str) -> None:
    with pytest.raises(ValidationError, match="name"):
        TokenRequest(name=name, scopes=[Scope.READ])


def test_a_login_that_is_wrong_does_not_quote_the_token() -> None:
    with pytest.raises(ValidationError) as caught:
        LoginRequest.model_validate({"token": "reef_secret" * 50})
    assert "reef_secret" not in str(caught.value)


def test_a_listed_token_has_no_field_for_a_secret() -> None:
    assert not {"token", "secret", "digest"} & set(Token.model_fields)
