package gateway

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/pem"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// endpoint is a parsed Endpoint. It is immutable; an update replaces it.
type endpoint struct {
	node, slice, address           string
	names                          []string
	hostKeys                       []ssh.Signer
	accounts                       map[string][][]byte // by login: public keys in wire format
	insideKeys                     [][]byte
	publicListener, insideListener net.Listener
}

// maxLine is the most bytes of a line with a key; an RSA key of 16384 bits needs 2,800.
const maxLine = 8 << 10

// newEndpoint returns an endpoint without listeners.
func newEndpoint(d *Endpoint) (*endpoint, error) {
	n := &endpoint{
		node: d.Node, slice: d.Slice, address: d.Address, names: d.Names,
		accounts:   make(map[string][][]byte, len(d.Accounts)),
		insideKeys: parseKeys(d.InsideKeys),
	}
	for _, a := range d.Accounts {
		n.accounts[a.Login] = append(n.accounts[a.Login], parseKeys(a.Keys)...)
	}
	if d.Address != "" {
		return n, nil
	}
	var err error
	n.hostKeys, err = parseHostKeys(d.HostKey)
	return n, err
}

// parseHostKeys fails for a text without a key.
func parseHostKeys(text []byte) ([]ssh.Signer, error) {
	var all []ssh.Signer
	for {
		block, rest := pem.Decode(text)
		if block == nil && len(all) > 0 && len(bytes.TrimSpace(text)) == 0 {
			return all, nil
		}
		k, err := ssh.ParsePrivateKey(text[:len(text)-len(rest)])
		if err != nil {
			return nil, err
		}
		all, text = append(all, k), rest
	}
}

// parseKeys parses lines of authorized_keys. It skips invalid lines and certificates. It
// also skips keys with options, because the gateway does not enforce options.
func parseKeys(lines []string) [][]byte {
	var list [][]byte
	for _, line := range lines {
		if len(line) > maxLine {
			continue
		}
		k, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(options) > 0 {
			continue
		}
		if _, is := k.(*ssh.Certificate); !is {
			list = append(list, k.Marshal())
		}
	}
	return list
}

// allowsLogin is for logins from outside.
func (d *endpoint) allowsLogin(login string, key []byte) bool {
	return contains(d.accounts[login], key)
}

// allowsInsideLogin is for logins at port 22 inside a node of the slice. Keys that
// allowsLogin accepts are valid there, too.
func (d *endpoint) allowsInsideLogin(login string, key []byte) bool {
	list, is := d.accounts[login]
	return is && (contains(d.insideKeys, key) || contains(list, key))
}

func (d *endpoint) hasKey(key []byte) bool {
	found := false
	for _, list := range d.accounts {
		found = contains(list, key) || found
	}
	return found
}

// contains takes the same time for every position of key.
func contains(list [][]byte, key []byte) bool {
	found := 0
	for _, k := range list {
		found |= subtle.ConstantTimeCompare(k, key)
	}
	return found == 1
}

func (d *endpoint) hasName(name string) bool {
	return name == d.node || slices.ContainsFunc(d.names, func(n string) bool { return strings.EqualFold(n, name) })
}

// hasShortName reports whether name is one of the node's names up to the first dot.
func (d *endpoint) hasShortName(name string) bool {
	return slices.ContainsFunc(d.names, func(n string) bool {
		brief, _, _ := strings.Cut(n, ".")
		return strings.EqualFold(brief, name)
	})
}

func (d *endpoint) displayName() string {
	if len(d.names) > 0 {
		return d.names[0]
	}
	return d.node
}

type fingerprint [sha256.Size]byte

// index counts the accounts for each public key, by node. The gateway account finds the
// nodes of a key with it.
type index map[fingerprint]map[string]int

// add adds the keys of d's accounts to the index if delta is 1, and removes them if it is -1.
func (x index) add(d *endpoint, delta int) {
	for _, list := range d.accounts {
		for _, k := range list {
			f := fingerprint(sha256.Sum256(k))
			nodes := x[f]
			if nodes == nil {
				nodes = make(map[string]int)
				x[f] = nodes
			}
			if nodes[d.node] += delta; nodes[d.node] == 0 {
				delete(nodes, d.node)
			}
			if len(nodes) == 0 {
				delete(x, f)
			}
		}
	}
}
