package authority

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/mail"
	"slices"
	"strings"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/display"
	"patchbay/am/urn"
	"patchbay/credentials/trial"
)

// Limits of records.
const (
	maxMembers        = 10_000
	maxKeys           = 20   // of a member
	maxSlices         = 100  // that have not expired, of a member as LEAD; and as many expired ones
	maxProjects       = 20   // of a member as LEAD
	maxGroup          = 1000 // members of a slice or a project
	maxMemberships    = 500  // slices and projects to which others add a member
	maxSliverInfos    = 2000 // of a slice
	maxReported       = 5000 // sliver records that one member has made
	credentialType    = "geni_sfa"
	credentialVersion = "3"
)

var memberObject = object{
	name: objectMember,
	fields: []field{
		{name: "MEMBER_URN", kind: typeURN, match: true},
		{name: "MEMBER_UID", kind: typeUID, match: true},
		{name: "MEMBER_USERNAME", kind: typeName, match: true},
		{name: "MEMBER_FIRSTNAME", kind: typeString, update: true, match: true, protect: identifying},
		{name: "MEMBER_LASTNAME", kind: typeString, update: true, match: true, protect: identifying},
		{name: "MEMBER_EMAIL", kind: typeEmail, update: true, match: true, protect: identifying},
	},
	rows:   memberRows,
	update: updateMember,
}

func memberRows(c *call, _ conditions, yield func(row)) error {
	var list snapshot
	known, err := c.sharingMembers()
	if err == nil {
		err = c.view(func(t *tx) error { return list.addAll(t, members, maxRows) })
	}
	if err != nil {
		return err
	}
	for _, m := range each[Member](list, &err) {
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

// maxSharing limits the bytes of slices and projects that one lookup of members decodes.
const maxSharing = 4 << 20

// sharingMembers returns the members whose name and email the caller sees: those who have accepted a
// slice or a project of the caller, and all members of an operator's project that the caller leads.
func (c *call) sharingMembers() (known map[string]bool, err error) {
	var groups snapshot
	size := 0
	err = c.view(func(t *tx) error {
		for _, key := range following(t, memberships, maxRows, c.caller.Key()) {
			if size > maxSharing {
				break
			}
			b := groupBucket(key)
			if err := groups.add(t, b, key); err != nil {
				return err
			}
			size += len(t.Bucket([]byte(b)).Get([]byte(key)))
		}
		return nil
	})
	known = map[string]bool{}
	for _, p := range each[Project](groups, &err) { // the fields of a slice's record that matter here are the same
		isOperators := p.ByOperator && p.roleOf(c.caller) == Lead
		for _, m := range p.Members {
			if !p.isExpired(c.now) && (m.Accepted || isOperators) {
				known[m.Member.Key()] = true
			}
		}
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

func keyRows(c *call, match conditions, yield func(row)) error {
	var list snapshot
	err := c.view(func(t *tx) error {
		ids, ok := match.only("KEY_ID")
		if owners, has := match.only("KEY_MEMBER"); has && !ok {
			ok = true
			for owner := range owners {
				for _, id := range following(t, keysOfMember, maxRows, owner) {
					ids[id] = true
				}
			}
		}
		if !ok {
			return list.addAll(t, keys, maxRows)
		}
		for id := range ids {
			if err := list.add(t, keys, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range each[Key](list, &err) {
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

// createKey adds a key. Members may create keys only for themselves, so the owner in KEY_MEMBER is the
// caller.
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
	err = c.update(func(t *tx) error {
		own := following(t, keysOfMember, maxRows, c.caller.Key())
		switch {
		case slices.Contains(own, k.ID):
			return refuse(Duplicate, "you have this key already, as %s", k.ID)
		case len(own) >= maxKeys:
			return refuse(Argument, "you have %d keys, the limit; delete one first", maxKeys)
		}
		return putKey(t, k)
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
		k, ok, err := get[Key](t, keys, urn.Lower(id))
		if err != nil {
			return err
		}
		if !ok {
			return unknown("key", display.Cut(id, 80))
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
		return put(t, keys, k.ID, k)
	})
}

func deleteKey(c *call, id string) error {
	return changeKey(c, id, actDelete, removeKey)
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
