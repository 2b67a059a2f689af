package main

import (
	_ "embed"
	"io/fs"

	"github.com/spf13/pflag"
)

type initOptions struct {
	Dir       string
	Authority string
	Provider  string
	Listen    string
	PublicURL string
	Outbound  string

	asks bool // it is a command, so somebody may be there to ask
}

func (o *initOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Authority, "authority", "", "the site's name in URNs, unique in its federation (default: the host's full name)")
	fs.StringVar(&o.Provider, "provider", simulatedName, "who makes slivers: local, whose nodes are containers of this host, or simulated, whose nodes pretend to exist (others go into the site's folder providers/ later)")
	fs.StringVar(&o.Listen, "listen", "", "address and port for clients (default: the port of --public-url, or :8443)")
	fs.StringVar(&o.PublicURL, "public-url", "", "https://HOST:PORT as clients reach it (default: the host's full name and the port)")
	fs.StringVar(&o.Outbound, "outbound", "", "yes or no: whether nodes of the local testbed reach the network outside, through this host (default: asked at a terminal, else no)")
	o.asks = true
}

// siteFile is a file to be written into a site.
type siteFile struct {
	name    string
	content []byte
	mode    fs.FileMode
}

// Providers that init can set up.
const (
	simulatedName = "simulated"
	localName     = "local"
)
