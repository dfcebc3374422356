"""Parts of other tools that call sliceport. Each module needs the tool that it is named after."""
