package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
)

const (
	maxUsers      = 256
	maxKeys       = 64
	maxKeyLength  = 16 << 10
	maxKeyComment = 256
)

// users reads the option geni_users, or the argument users: the users who get accounts. Their logins are chosen later. An invalid key
// is refused, because a key that is silently ignored locks its user out.
func users(v xmlrpc.Value) ([]am.Account, error) {
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return nil, errors.New("it must be an array of structs with urn and keys")
	}
	if len(list) > maxUsers {
		return nil, fmt.Errorf("it names %d users; the limit is %d", len(list), maxUsers)
	}
	var out []am.Account
	for i, v := range list {
		s, ok := v.(xmlrpc.Struct)
		u, hasURN := s.Get("urn")
		k, hasKeys := s.Get("keys")
		if !ok || !hasURN || !hasKeys {
			return nil, fmt.Errorf("number %d must be a struct with urn and keys", i+1)
		}
		text, ok := xmlrpc.AsString(u)
		if !ok {
			return nil, fmt.Errorf("number %d: urn must be a string", i+1)
		}
		user, err := urn.Parse(strings.TrimSpace(text))
		if err != nil || user.Type != urn.User {
			return nil, fmt.Errorf("number %d: %.80q is not the URN of a user", i+1, text)
		}
		keys, ok := k.([]xmlrpc.Value)
		if !ok {
			return nil, fmt.Errorf("%s: keys must be an array of strings", user)
		}
		if len(keys) > maxKeys {
			return nil, fmt.Errorf("%s has %d keys; the limit is %d", user, len(keys), maxKeys)
		}
		a := am.Account{User: user}
		for n, v := range keys {
			line, ok := xmlrpc.AsString(v)
			if !ok {
				return nil, fmt.Errorf("%s: key %d must be a string", user, n+1)
			}
			key, err := publicKey(line)
			if err != nil {
				return nil, fmt.Errorf("%s: key %d: %v", user, n+1, err)
			}
			a.Keys = append(a.Keys, key)
		}
		out = append(out, a)
	}
	return out, nil
}

// publicKey checks a public key in the format of OpenSSH and returns it as type, key and
// comment. It refuses options such as command=.
func publicKey(line string) (string, error) {
	line = strings.TrimSpace(line)
	if len(line) > maxKeyLength {
		return "", fmt.Errorf("it is longer than %d bytes", maxKeyLength)
	}
	if strings.ContainsAny(line, "\r\n\x00") {
		return "", fmt.Errorf("it has a line break inside; give one key per string")
	}
	key, comment, opts, _, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return "", fmt.Errorf("%.24q… is not an OpenSSH public key; those look like \"ssh-ed25519 AAAA… comment\"", line)
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
