"""The frame codec: the Python twin of src/shared/layout/wire, held to it by test/golden/wire.json."""
