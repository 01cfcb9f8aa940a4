"""Python's websockets against an echo: peer.py URL COMPRESSION, which is off, alone or takeover."""

import asyncio
import sys

import websockets
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

MIB = 1 << 20
SIZES = [0, 1, 125, 126, 65_535, 65_536, MIB, 4 * MIB]
CLIENTS = 50
PATIENCE_S = 60


def open_client(url, **more):
    # Offers permessage-deflate by default.
    return connect(url, max_size=None, open_timeout=PATIENCE_S, **more)


async def sizes(url):
    async with open_client(url) as client:
        agreed = [extension.name for extension in client.protocol.extensions]
        expected = [] if COMPRESSION == "off" else ["permessage-deflate"]
        assert agreed == expected, agreed
        for size in SIZES:
            text = "é" * (size // 2) + "x" * (size % 2)
            for message in (text, b"\xa5" * size):
                await client.send(message)
                assert await client.recv() == message, f"{size} bytes"


async def fragments(url):
    async with open_client(url) as client:
        await client.send(["frag", "ment", "ed"])
        assert await client.recv() == "fragmented"


async def crowd(url):
    async def one(number):
        async with open_client(url) as client:
            sent = [f"{number}:{i}" * (i + 1) for i in range(100)]
            for message in sent:
                await client.send(message)
            assert [await client.recv() for _ in sent] == sent, "order"

    await asyncio.gather(*(one(number) for number in range(CLIENTS)))


async def pings(url):
    async with open_client(url) as client:
        for body in (b"", b"k", b"p" * 125):
            await asyncio.wait_for(await client.ping(body), PATIENCE_S)


async def close_codes(url):
    for code in (1000, 1001, 3000, 4999):
        client = await open_client(url)
        await client.close(code, "bye")
        assert client.close_code == code, client.close_code
        received = client.protocol.close_rcvd
        assert received is not None and received.code == code, received


async def too_big(url):
    async with open_client(url) as client:
        try:
            await client.send(b"x" * (4 * MIB + 1))
            await client.recv()
        except ConnectionClosed as closed:
            assert closed.rcvd is not None and closed.rcvd.code == 1009, closed
        else:
            raise AssertionError("it came back")


async def refusal(url):
    try:
        await open_client(url + "/nowhere")
    except websockets.exceptions.InvalidStatus as refused:
        assert refused.response.status_code == 404, refused.response
    else:
        raise AssertionError("it was let in")


async def main(url):
    for check in (sizes, fragments, crowd, pings, close_codes, too_big, refusal):
        name = f"python {check.__name__}, compression {COMPRESSION}"
        try:
            await asyncio.wait_for(check(url), 2 * PATIENCE_S)
            print(f"ok {name}", flush=True)
        except Exception as error:
            print(f"FAILED {name}: {error!r}", flush=True)


COMPRESSION = sys.argv[2]
asyncio.run(main(sys.argv[1]))
