"""What the subcommands do, one module each, imported only when its command runs."""
