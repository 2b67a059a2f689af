package service

import (
	"slices"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/am/urn"
)

// nameAccounts returns an account with a login for each user that has a key. A user keeps an
// existing login in the slice. For other users, nameAccounts derives a login from the URN that is
// unique in the slice. slivers is the number of the slice's live slivers.
func nameAccounts(v *store.View, slice urn.URN, users []am.Account) (named []am.Account, slivers int, err error) {
	live, err := liveSlivers(v, slice)
	if err != nil {
		return nil, 0, err
	}
	logins := map[string]string{} // by the user's key
	taken := map[string]bool{}
	note := func(a am.Account) {
		logins[a.User.Key()] = a.Login
		taken[a.Login] = true
	}
	for _, x := range live {
		for _, a := range x.Desired.Accounts {
			note(a)
		}
	}
	var out []am.Account
	for _, u := range users {
		if len(u.Keys) == 0 {
			continue
		}
		i := slices.IndexFunc(out, func(a am.Account) bool { return a.User.Equal(u.User) })
		if i >= 0 { // the same user twice: all keys count
			for _, k := range u.Keys {
				if !slices.Contains(out[i].Keys, k) {
					out[i].Keys = append(out[i].Keys, k)
				}
			}
			continue
		}
		login, ok := logins[u.User.Key()]
		if !ok {
			login = am.LoginName(u.User, func(s string) bool { return taken[s] })
		}
		a := am.Account{Login: login, User: u.User, Keys: slices.Clone(u.Keys)}
		note(a)
		out = append(out, a)
	}
	return out, len(live), nil
}

// Every sliver's record and every manifest contains the accounts.
const (
	maxAccounts = 1000
	// maxKeyBytes limits the bytes of the keys on all nodes of a slice, because each change
	// writes all keys again. It suffices for 20 users with an RSA key on 300 nodes.
	maxKeyBytes = 4 << 20
)

// limitAccounts returns a TooBig error above maxAccounts accounts, or if their keys take more
// than maxKeyBytes on all slivers together. slivers is the number of slivers.
func limitAccounts(accounts []am.Account, slivers int) error {
	if n := len(accounts); n > maxAccounts {
		return am.Errorf(am.TooBig, "each node would have %d accounts; the limit is %d; give an empty list of keys to remove a user", n, maxAccounts)
	}
	n := 0
	for _, a := range accounts {
		for _, k := range a.Keys {
			n += len(k)
		}
	}
	if n*slivers > maxKeyBytes {
		return am.Errorf(am.TooBig, "the keys of the users take %d bytes on each of %d slivers; the limit for all slivers together is %d bytes; give fewer keys", n, slivers, maxKeyBytes)
	}
	return nil
}

// updateAccounts returns a node's accounts after geni_update_users. present are the accounts
// before, and users those in the call. named are the accounts of users that have keys, with their
// logins. The keys of a user in the call replace the old ones; a user without keys is removed.
// Users that are not in the call stay.
func updateAccounts(present, users, named []am.Account) []am.Account {
	listed := make(map[string]bool, len(users))
	for _, u := range users {
		listed[u.User.Key()] = true
	}
	with := make(map[string]am.Account, len(named))
	for _, a := range named {
		with[a.User.Key()] = a
	}
	var out []am.Account
	for _, a := range present {
		key := a.User.Key()
		if !listed[key] {
			out = append(out, a)
		} else if now, ok := with[key]; ok {
			out = append(out, now)
			delete(with, key)
		}
	}
	for _, a := range named {
		if _, ok := with[a.User.Key()]; ok {
			out = append(out, a)
		}
	}
	return out
}
