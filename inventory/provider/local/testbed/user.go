package testbed

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider/local/gateway"
)

const (
	maxUsers     = 1000
	maxKeys      = 100
	maxUserBytes = 256 << 10 // of all items of a node
	maxKeyBytes  = 16 << 10
)

// user is one item of the attribute "users".
type user struct {
	Login string   `json:"login"`
	URN   string   `json:"urn"`
	Keys  []string `json:"keys"`
}

// parseUsers parses and checks the accounts of a node. The error is for experimenters.
func parseUsers(items []string) ([]user, error) {
	if len(items) > maxUsers {
		return nil, fmt.Errorf("there are %d accounts, at most %d are allowed", len(items), maxUsers)
	}
	size, seen := 0, map[string]bool{}
	var all []user
	for i, item := range items {
		var u user
		size += len(item)
		if err := json.Unmarshal([]byte(item), &u); err != nil {
			return nil, fmt.Errorf("account %d is not a JSON object with login and keys", i+1)
		}
		switch {
		case size > maxUserBytes:
			return nil, fmt.Errorf("the accounts have more than %d bytes of keys and names; give fewer keys", maxUserBytes)
		case !isLogin(u.Login):
			return nil, fmt.Errorf("%.40q cannot be the name of an account; use up to 32 small letters, digits, hyphens and underscores, beginning with a letter", u.Login)
		case seen[u.Login]:
			return nil, fmt.Errorf("the account %s is listed twice; remove one", u.Login)
		case len(u.Keys) > maxKeys:
			return nil, fmt.Errorf("the account %s has %d keys, at most %d are allowed", u.Login, len(u.Keys), maxKeys)
		case !isOneLine(u.URN):
			return nil, fmt.Errorf("the URN of the account %s has control characters", u.Login)
		}
		for _, k := range u.Keys {
			if !isOneLine(k) || len(k) > maxKeyBytes {
				return nil, fmt.Errorf("a key of the account %s must be one line of at most %d bytes", u.Login, maxKeyBytes)
			}
		}
		seen[u.Login] = true
		all = append(all, u)
	}
	return all, nil
}

// isLogin reports whether s can be the name of an account.
func isLogin(s string) bool {
	const letters, more = "abcdefghijklmnopqrstuvwxyz_", "0123456789-"
	return s != "" && len(s) <= 32 && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+more) == ""
}

// isOneLine reports whether s can stand in one line of a file.
func isOneLine(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) < 0
}

func accountsOf(users []user) []agent.Account {
	all := make([]agent.Account, len(users))
	for i, u := range users {
		all[i] = agent.Account{Login: u.Login, Keys: u.Keys}
	}
	return all
}

// rootAccount has the keys of all accounts, since each account has the rights of root. It
// returns nil if there are no accounts. Manifests do not list root.
func rootAccount(users []user) []agent.Account {
	var keys []string
	for _, u := range users {
		keys = append(keys, u.Keys...)
	}
	if len(users) == 0 {
		return nil
	}
	return []agent.Account{{Login: gateway.Root, Keys: keys}}
}
