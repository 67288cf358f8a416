"""Makes the keys and values of a Qwen3-shaped model over text-like input, for bench/codec-capacity.ts.

    python3 bench/kv/make-kv.py OUT [--tokens 4096] [--layers 36] [--hidden 4096] [--device cuda] [--model PATH]

Weights are random unless --model names a folder with a model: then shape and numbers are those of a real one. What random
weights give has the shape, the norms and the rotary embedding of the model, not its outliers: ratios of an entropy code and
errors of quantization of a trained model differ. Input is token ids whose frequencies follow Zipf's law, with phrases that
come back, as text has them.

OUT gets one raw file for the keys and one for the values of each layer, [token][head][dimension] in bf16, little-endian,
and kv.json that says what they are. Needs torch and transformers.
"""

import argparse
import json
import pathlib

import torch
import transformers

ZIPF_EXPONENT = 1.1
PHRASES = 64
PHRASE_TOKENS = 24
PHRASE_SHARE = 0.3


def text_like(tokens: int, vocabulary: int, generator: torch.Generator) -> torch.Tensor:
    """Token ids: words by Zipf's law, and a third of them in phrases that were there before."""
    ranks = torch.arange(1, vocabulary + 1, dtype=torch.float64)
    weights = ranks.pow(-ZIPF_EXPONENT)
    words_of_rank = torch.randperm(vocabulary, generator=generator)

    def words(count: int) -> torch.Tensor:
        return words_of_rank[torch.multinomial(weights, count, replacement=True, generator=generator)]

    phrases = [words(PHRASE_TOKENS) for _ in range(PHRASES)]
    parts: list[torch.Tensor] = []
    made = 0
    while made < tokens:
        again = torch.rand(1, generator=generator).item() < PHRASE_SHARE
        phrase = int(torch.randint(PHRASES, (1,), generator=generator).item())
        parts.append(phrases[phrase] if again else words(PHRASE_TOKENS))
        made += PHRASE_TOKENS
    return torch.cat(parts)[:tokens]


def random_model(args: argparse.Namespace) -> torch.nn.Module:
    config = transformers.Qwen3Config(
        vocab_size=151_936,
        hidden_size=args.hidden,
        intermediate_size=3 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=max(1, args.hidden // 128),
        num_key_value_heads=args.heads,
        head_dim=128,
        max_position_embeddings=max(40_960, args.tokens),
        rope_theta=1_000_000.0,
    )
    torch.manual_seed(args.seed)
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(args.device):
            return transformers.Qwen3Model(config)
    finally:
        torch.set_default_dtype(previous)


def layers_of(cache: object) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of every layer, [batch, head, token, dimension], whatever this version calls them."""
    if hasattr(cache, "layers"):
        return [(layer.keys, layer.values) for layer in cache.layers]
    return list(zip(cache.key_cache, cache.value_cache, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=8, help="heads of keys and values")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", help="folder of a model, in place of random weights")
    args = parser.parse_args()

    if args.model is None:
        model = random_model(args)
    else:
        model = transformers.AutoModel.from_pretrained(args.model, dtype=torch.bfloat16, local_files_only=True)
        model = model.to(args.device)
    model.eval()
    config = model.config
    ids = text_like(args.tokens, config.vocab_size, torch.Generator().manual_seed(args.seed))
    with torch.no_grad():
        cache = model(ids.unsqueeze(0).to(args.device), use_cache=True).past_key_values

    args.out.mkdir(parents=True, exist_ok=True)
    layers = layers_of(cache)
    for number, parts in enumerate(layers):
        for role, tensor in zip(("k", "v"), parts, strict=True):
            values = tensor[0].transpose(0, 1).contiguous().to(torch.bfloat16).cpu()
            values.view(torch.int16).numpy().tofile(args.out / f"layer-{number:02}-{role}.bf16")
    heads, dimension = layers[0][0].shape[1], layers[0][0].shape[3]
    about = {
        "dtype": "bfloat16",
        "layers": len(layers),
        "tokens": args.tokens,
        "heads": heads,
        "headDim": dimension,
        "weights": "random" if args.model is None else pathlib.Path(args.model).name,
        "hidden": config.hidden_size,
        "seed": args.seed,
    }
    (args.out / "kv.json").write_text(json.dumps(about) + "\n")
    print(json.dumps(about))


if __name__ == "__main__":
    main()
