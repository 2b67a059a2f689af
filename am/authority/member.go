package authority

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/mail"
	"slices"
	"strings"

	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/credentials/trial"
)

// Limits of records.
const (
	maxMembers        = 10_000
	maxKeys           = 20   // of a member
	maxSlices         = 100  // that have not expired, of a member as LEAD
	maxProjects       = 20   // of a member as LEAD
	maxGroup          = 1000 // members of a slice or a project
	maxSliverInfos    = 2000 // of a slice
	credentialType    = "geni_sfa"
	credentialVersion = "3"
)

var memberObject = object{
	name: objectMember,
	fields: []field{
		{name: "MEMBER_URN", kind: typeURN, match: true},
		{name: "MEMBER_UID", kind: typeUID, match: true},
		{name: "MEMBER_USERNAME", kind: typeString, match: true},
		{name: "MEMBER_FIRSTNAME", kind: typeString, update: true, match: true, protect: identifying},
		{name: "MEMBER_LASTNAME", kind: typeString, update: true, match: true, protect: identifying},
		{name: "MEMBER_EMAIL", kind: typeEmail, update: true, match: true, protect: identifying},
	},
	rows:   memberRows,
	update: updateMember,
}

func memberRows(c *call, t *tx, yield func(row)) (err error) {
	known, err := companions(t, c.caller)
	if err != nil {
		return err
	}
	for _, m := range all[Member](t, members, &err) {
		if !m.Removed.IsZero() {
			continue
		}
		is := anyMember
		switch {
		case m.URN.Equal(c.caller):
			is |= self
		case known[m.URN.Key()]:
			is |= shares
		}
		r := row{key: m.URN.String(), values: map[string]xmlrpc.Value{
			"MEMBER_URN": m.URN.String(), "MEMBER_UID": m.UID, "MEMBER_USERNAME": m.URN.Name,
			"MEMBER_FIRSTNAME": m.FirstName, "MEMBER_LASTNAME": m.LastName, "MEMBER_EMAIL": m.Email,
		}}
		if may(objectMember, actIdentity, is, m.URN) == nil {
			r.sees = identifying
		}
		if is&self != 0 {
			r.sees = private
		}
		yield(r)
	}
	return err
}

// companions returns the members who share a slice or a project with u.
func companions(t *tx, u urn.URN) (known map[string]bool, err error) {
	known = map[string]bool{}
	add := func(g *group) {
		if g.roleOf(u) != "" {
			for _, m := range g.Members {
				known[m.Member.Key()] = true
			}
		}
	}
	for _, s := range all[Slice](t, sliceRecords, &err) {
		add(&s.group)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range all[Project](t, projects, &err) {
		add(&p.group)
	}
	return known, err
}

func updateMember(c *call, name string, f fields) error {
	u, err := parseURN("the member", name, urn.User)
	if err != nil {
		return err
	}
	if err := may(objectMember, actUpdate, selfIf(u.Equal(c.caller)), u); err != nil {
		return err
	}
	if s := f.text("MEMBER_EMAIL"); s != "" {
		if a, err := mail.ParseAddress(s); err != nil || a.Address != s {
			return refuse(Argument, "MEMBER_EMAIL must be an address such as alice@example.org")
		}
	}
	return c.update(func(t *tx) error {
		m, _, err := get[Member](t, members, c.caller.Key())
		if err != nil {
			return err
		}
		for name, to := range map[string]*string{"MEMBER_FIRSTNAME": &m.FirstName, "MEMBER_LASTNAME": &m.LastName, "MEMBER_EMAIL": &m.Email} {
			if _, ok := f[name]; ok {
				*to = f.text(name)
			}
		}
		return put(t, members, c.caller.Key(), m)
	})
}

func selfIf(is bool) relation {
	if is {
		return self
	}
	return 0
}

// getUserCredentials issues the caller's own user credential.
func getUserCredentials(c *call) (xmlrpc.Value, error) {
	u, err := parseURN("the member", c.target, urn.User)
	if err == nil {
		err = may(objectMember, actCredential, selfIf(u.Equal(c.caller)), u)
	}
	if err != nil {
		return nil, err
	}
	text, err := c.authority.UserCredential(c.caller.Name, c.now.Add(FirstLease))
	return credentialList(text), err
}

func credentialList(text []byte) xmlrpc.Value {
	return []xmlrpc.Value{xmlrpc.Struct{
		{Name: "geni_type", Value: credentialType}, {Name: "geni_version", Value: credentialVersion}, {Name: "geni_value", Value: string(text)},
	}}
}

var keyObject = object{
	name: objectKey,
	fields: []field{
		{name: "KEY_MEMBER", kind: typeURN, create: required, match: true},
		{name: "KEY_ID", kind: typeUID, match: true},
		{name: "KEY_TYPE", kind: typeString, create: allowed, match: true},
		{name: "KEY_PUBLIC", kind: typeKey, create: required, match: true},
		{name: "KEY_PRIVATE", kind: typeKey, protect: private},
		{name: "KEY_DESCRIPTION", kind: typeString, create: allowed, update: true, match: true},
	},
	rows:   keyRows,
	create: createKey,
	update: updateKey,
	remove: deleteKey,
}

func keyRows(_ *call, t *tx, yield func(row)) (err error) {
	for _, k := range all[Key](t, keys, &err) {
		yield(rowOfKey(k))
	}
	return err
}

// rowOfKey never has KEY_PRIVATE: the authority keeps no private keys for its members.
func rowOfKey(k Key) row {
	return row{key: k.ID, owner: k.Member.String(), sees: private, values: map[string]xmlrpc.Value{
		"KEY_MEMBER": k.Member.String(), "KEY_ID": k.ID, "KEY_TYPE": k.Type, "KEY_PUBLIC": k.Public, "KEY_DESCRIPTION": k.Description,
	}}
}

// keyID is the same for the same key of the same member.
func keyID(k Key) string {
	parts := strings.Fields(k.Public)
	sum := sha256.Sum256([]byte(k.Member.Key() + "\x00" + strings.Join(parts[:min(2, len(parts))], " ")))
	return hex.EncodeToString(sum[:16])
}

func createKey(c *call, f fields) (r row, err error) {
	owner, err := f.urn("KEY_MEMBER", urn.User)
	if err == nil {
		err = may(objectKey, actCreate, selfIf(owner.Equal(c.caller)), owner)
	}
	if err != nil {
		return r, err
	}
	lines, err := trial.ParseSSHKeys([]byte(f.text("KEY_PUBLIC")))
	if err != nil || strings.Count(string(lines), "\n") != 1 {
		return r, refuse(Argument, "KEY_PUBLIC must be one public SSH key, such as the line in id_ed25519.pub")
	}
	k := Key{Member: c.caller, Type: f.text("KEY_TYPE"), Public: strings.TrimSpace(string(lines)), Description: f.text("KEY_DESCRIPTION"), Created: c.now.UTC()}
	if k.Type == "" {
		k.Type = "ssh"
	}
	k.ID = keyID(k)
	err = c.update(func(t *tx) (err error) {
		n := 0
		for id, have := range all[Key](t, keys, &err) {
			if id == k.ID {
				return refuse(Duplicate, "you have this key already, as %s", id)
			}
			if have.Member.Equal(c.caller) {
				n++
			}
		}
		if err == nil && n >= maxKeys {
			err = refuse(Argument, "you have %d keys, the limit; delete one first", maxKeys)
		}
		if err != nil {
			return err
		}
		return put(t, keys, k.ID, k)
	})
	return rowOfKey(k), err
}

// createKey1 has the owner as an argument.
func createKey1(c *call) (xmlrpc.Value, error) {
	v, _ := c.options.Get("fields")
	if f, ok := v.(xmlrpc.Struct); ok {
		if _, has := f.Get("KEY_MEMBER"); !has {
			c.options = xmlrpc.Struct{{Name: "fields", Value: append(f, xmlrpc.Member{Name: "KEY_MEMBER", Value: c.target})}}
		}
	}
	return create(c)
}

// changeKey passes the key to f in a transaction, if the caller may do the action.
func changeKey(c *call, id, action string, f func(*tx, Key) error) error {
	return c.update(func(t *tx) error {
		k, ok, err := get[Key](t, keys, id)
		if err != nil {
			return err
		}
		if !ok {
			return unknown("key", cut(id))
		}
		if err := may(objectKey, action, selfIf(k.Member.Equal(c.caller)), k.Member); err != nil {
			return err
		}
		return f(t, k)
	})
}

func updateKey(c *call, id string, f fields) error {
	return changeKey(c, id, actUpdate, func(t *tx, k Key) error {
		k.Description = f.text("KEY_DESCRIPTION")
		return put(t, keys, id, k)
	})
}

func deleteKey(c *call, id string) error {
	return changeKey(c, id, actDelete, func(t *tx, _ Key) error { return remove(t, keys, id) })
}

// lookupKeys1 answers with the keys of each member, as version 1 requires.
func lookupKeys1(c *call) (xmlrpc.Value, error) {
	rows, err := c.object.lookup(c)
	byOwner := map[string][]xmlrpc.Value{}
	for _, r := range rows {
		byOwner[r.owner] = append(byOwner[r.owner], c.object.structOf(r))
	}
	s := xmlrpc.Struct{}
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		s = append(s, xmlrpc.Member{Name: owner, Value: byOwner[owner]})
	}
	return s, err
}
