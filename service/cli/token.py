"""`reef token` and `reef audit`: API tokens and the audit log.

Without `--url` they work on this machine's archive, even if no service runs. So an administrator of the machine can
create the first token, and regain access if all tokens are lost.
"""

import asyncio
from datetime import timedelta
from typing import Annotated

import typer
from rich.text import Text

from kernelreef.models import AuditEntry, IssuedToken
from kernelreef.models import Token as Listed
from kernelreef.short_ids import brief
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import FoldedTable, emit_json, err, out
from service.security.authentication import utc_now
from service.security.scopes import Scope

DAYS = 90
"""Default lifetime of a token in days: with four renewals a year, a lost token does not stay valid for long."""
DEFAULT_SCOPES = [Scope.READ, Scope.SUBMIT, Scope.STEER]
"""Scopes of a person who works with searches."""

tokens = typer.Typer(help="Manage API tokens.", no_args_is_help=True)


@tokens.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the token, such as its user's.")],
    scope: Annotated[list[Scope] | None, typer.Option(help="Scope of the token; may repeat.")] = None,
    days: Annotated[int, typer.Option(min=0, max=36_500, help="Lifetime in days; 0 for no expiry.")] = DAYS,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and show it once."""
    made = asyncio.run(_create(name, scope or DEFAULT_SCOPES, days, url, token))
    if as_json:
        emit_json(made.model_dump(mode="json"))
        return
    err.print(Text(f"{made.name}: {', '.join(made.scopes)}; {_until(made)}. Copy it now: it is not shown again."))
    out.print(Text(made.token))


@tokens.command("list")
def find(url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """List the tokens, newest first, without their secrets."""
    found = asyncio.run(_find(url, token))
    if as_json:
        emit_json([each.model_dump(mode="json") for each in found])
        return
    table = FoldedTable("id", "name", "scopes", "made", "state", "last used")
    for each in found:
        used = f"{each.last_used_at:%Y-%m-%d %H:%M}" if each.last_used_at else "never"
        made = f"{each.created_at:%Y-%m-%d}"
        table.add_row(brief(each.id), Text(each.name), ", ".join(each.scopes), made, _until(each), used)
    out.print(table)


@tokens.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(help="Id of the token, from `reef token list`.")],
    url: Url = None,
    token: Token = None,
) -> None:
    """Revoke a token and end its sessions."""
    revoked = asyncio.run(_revoke(id, url, token))
    err.print(Text(f"{revoked.name} is revoked"))


def audit(
    of: Annotated[str | None, typer.Option("--of", help="Id of a token: show only its entries.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of entries.")] = 50,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show the audit log: changes and refused requests, newest first."""
    found = asyncio.run(_audit(of, limit, url, token))
    if as_json:
        emit_json([entry.model_dump(mode="json") for entry in found])
        return
    table = FoldedTable("when", "who", "from", "what", "result")
    for entry in found:
        what = f"{entry.action.partition(' ')[0]} {entry.target}"
        result = f"{entry.status} {entry.detail}".strip()
        hostile = (Text(each) for each in (entry.caller, entry.address, what, result))
        table.add_row(f"{entry.at:%Y-%m-%d %H:%M:%S}", *hostile)
    out.print(table)


def show_token(text: str) -> None:
    """Show the archive's first token, which `reef serve` created."""
    err.print(Text("This archive's first token has all scopes. Copy it now: it is not shown again."))
    out.print(Text(text))


async def _create(name: str, scopes: list[Scope], days: int, url: str | None, caller: str | None) -> IssuedToken:
    expires_at = utc_now() + timedelta(days=days) if days else None
    async with reach(url, caller) as reef:
        return await reef.create_token(name, scopes, expires_at)


async def _find(url: str | None, caller: str | None) -> list[Listed]:
    async with reach(url, caller) as reef:
        return [each async for each in reef.tokens()]


async def _revoke(id: str, url: str | None, caller: str | None) -> Listed:
    async with reach(url, caller) as reef:
        return await reef.revoke_token(id)


async def _audit(of: str | None, limit: int, url: str | None, caller: str | None) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    async with reach(url, caller) as reef:
        async for entry in reef.audit(of):
            found.append(entry)
            if len(found) == limit:
                break
    return found


def _until(each: Listed) -> str:
    if each.revoked_at is not None:
        return f"revoked {each.revoked_at:%Y-%m-%d}"
    if each.expires_at is None:
        return "no expiry"
    return f"{'until' if utc_now() < each.expires_at else 'expired'} {each.expires_at:%Y-%m-%d}"
