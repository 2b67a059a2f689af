package api

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
)

// options is the options struct of a call. Unknown members are ignored.
type options xmlrpc.Struct

func (o options) get(name string) (xmlrpc.Value, bool) { return xmlrpc.Struct(o).Get(name) }

func badOption(name, format string, args ...any) error {
	return am.Errorf(am.BadArgs, "option %s: %s", name, fmt.Sprintf(format, args...))
}

// flag reads a boolean in any of the ways clients write one; absent is false.
func (o options) flag(name string) (bool, error) {
	v, ok := o.get(name)
	if !ok {
		return false, nil
	}
	b, ok := xmlrpc.AsBool(v)
	if !ok {
		return false, badOption(name, "it must be a boolean")
	}
	return b, nil
}

// text reads a string; absent is empty.
func (o options) text(name string) (string, error) {
	v, ok := o.get(name)
	if !ok {
		return "", nil
	}
	s, ok := xmlrpc.AsString(v)
	if !ok {
		return "", badOption(name, "it must be a string")
	}
	return strings.TrimSpace(s), nil
}

// moment reads a time; absent and empty are the zero time.
func (o options) moment(name string) (time.Time, error) {
	s, err := o.text(name)
	if err != nil || s == "" {
		return time.Time{}, err
	}
	t, err := parseTime(s)
	if err != nil {
		return t, badOption(name, "%v", err)
	}
	return t, nil
}

// rspecVersion checks the required geni_rspec_version: BadArgs when missing or
// of a wrong shape, BadVersion for another than GENI 3.
func (o options) rspecVersion() error {
	const name = "geni_rspec_version"
	v, ok := o.get(name)
	if !ok {
		return badOption(name, `it is required: a struct such as {"type": "GENI", "version": "3"}`)
	}
	s, isStruct := v.(xmlrpc.Struct)
	t, hasType := s.Get("type")
	n, hasVersion := s.Get("version")
	if !isStruct || !hasType || !hasVersion {
		return badOption(name, "it must be a struct with type and version")
	}
	typ, ok1 := xmlrpc.AsString(t)
	ver, ok2 := scalar(n)
	if !ok1 || !ok2 {
		return badOption(name, "type and version must be strings")
	}
	if !strings.EqualFold(strings.TrimSpace(typ), "GENI") || strings.TrimSpace(ver) != "3" {
		return am.Errorf(am.BadVersion, "RSpecs of type %.40q version %.40q are not spoken here; ask for GENI 3", typ, ver)
	}
	return nil
}

// Limits of geni_users.
const (
	maxUsers      = 256
	maxKeys       = 64
	maxKeyLength  = 16 << 10
	maxKeyComment = 256
)

// users reads geni_users: whose accounts to make and the keys that open them.
// Logins are chosen later. A key that cannot work is refused, for a key left
// out silently locks its user out.
func (o options) users() ([]am.Account, error) {
	const name = "geni_users"
	v, ok := o.get(name)
	if !ok {
		return nil, nil
	}
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return nil, badOption(name, "it must be an array of structs with urn and keys")
	}
	if len(list) > maxUsers {
		return nil, badOption(name, "it names %d users; the limit is %d", len(list), maxUsers)
	}
	var out []am.Account
	for i, v := range list {
		s, ok := v.(xmlrpc.Struct)
		u, hasURN := s.Get("urn")
		k, hasKeys := s.Get("keys")
		if !ok || !hasURN || !hasKeys {
			return nil, badOption(name, "number %d must be a struct with urn and keys", i+1)
		}
		text, ok := xmlrpc.AsString(u)
		if !ok {
			return nil, badOption(name, "number %d: urn must be a string", i+1)
		}
		user, err := urn.Parse(strings.TrimSpace(text))
		if err != nil || user.Type != urn.User {
			return nil, badOption(name, "number %d: %.80q is no URN of a user", i+1, text)
		}
		keys, ok := k.([]xmlrpc.Value)
		if !ok {
			return nil, badOption(name, "%s: keys must be an array of strings", user)
		}
		if len(keys) > maxKeys {
			return nil, badOption(name, "%s has %d keys; the limit is %d", user, len(keys), maxKeys)
		}
		a := am.Account{User: user}
		for n, v := range keys {
			line, ok := xmlrpc.AsString(v)
			if !ok {
				return nil, badOption(name, "%s: key %d must be a string", user, n+1)
			}
			key, err := publicKey(line)
			if err != nil {
				return nil, badOption(name, "%s: key %d: %v", user, n+1, err)
			}
			a.Keys = append(a.Keys, key)
		}
		out = append(out, a)
	}
	return out, nil
}

// publicKey checks one line as OpenSSH writes public keys, and gives it in its
// plain form: type, key, comment. Options such as command= are refused.
func publicKey(line string) (string, error) {
	line = strings.TrimSpace(line)
	if len(line) > maxKeyLength {
		return "", fmt.Errorf("it is longer than %d bytes", maxKeyLength)
	}
	if strings.ContainsAny(line, "\r\n\x00") {
		return "", fmt.Errorf("it has a line break inside; give one key a string")
	}
	key, comment, opts, _, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return "", fmt.Errorf("%.24q… is no OpenSSH public key; it looks like \"ssh-ed25519 AAAA… comment\"", line)
	case len(opts) > 0:
		return "", fmt.Errorf("it has options (%.40q); give type, key and comment only", strings.Join(opts, ","))
	case len(comment) > maxKeyComment:
		return "", fmt.Errorf("its comment is longer than %d bytes", maxKeyComment)
	}
	plain := key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
	if comment = strings.TrimSpace(comment); comment != "" {
		plain += " " + comment
	}
	return plain, nil
}
