package provider

import _ "embed" // Contract

// Contract is the text of PROVIDER.md, which the command patchbay guide shows.
//
//go:embed PROVIDER.md
var Contract string
