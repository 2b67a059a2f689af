package authority

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/trial"
)

const (
	// FirstLease is the lifetime of a slice that is created without an expiry, and of user
	// credentials.
	FirstLease = 7 * 24 * time.Hour
	// LongestLease is the longest time for which members can create or renew a slice.
	LongestLease = 90 * 24 * time.Hour
)

// Authority is the keys and the state of a trial authority.
type Authority struct {
	*trial.Authority
	store *store
}

// Open opens the authority in the folder keys of a site's folder dir. It adds the users and slices
// of an earlier version, and of an interrupted command, to the state. It fails if another process
// has the state open.
func Open(dir, keys string) (*Authority, error) {
	t, err := trial.Open(keys)
	if err != nil {
		return nil, err
	}
	s, err := openStore(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	a := &Authority{t, s}
	if err := a.adopt(time.Now()); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// OpenSessions opens the state of a site without a trial authority. Only the links and sessions of operators may be used.
func OpenSessions(dir string) (*Authority, error) {
	s, err := openStore(filepath.Join(dir, FileName))
	return &Authority{store: s}, err
}

// Close closes the state.
func (a *Authority) Close() error { return a.store.db.Close() }

// adopt adds users and slices that have certificates but no records. A slice of an earlier version
// had no owner in the state, so its record is expired and ownerless; the next credential renews it.
func (a *Authority) adopt(now time.Time) error {
	users, slices, err := a.Users()
	if err != nil {
		return err
	}
	missing := false // usually, so do not begin to write
	err = a.store.view(func(t *tx) error {
		for _, c := range users {
			_, ok, err := get[Member](t, members, c.URN.Key())
			missing = missing || !ok
			if err != nil {
				return err
			}
		}
		for _, c := range slices {
			_, ok, err := get[Slice](t, sliceRecords, c.URN.Key())
			missing = missing || !ok
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !missing {
		return err
	}
	return a.store.update(func(t *tx) error {
		for _, c := range users {
			if err := addMember(t, c, now); err != nil {
				return err
			}
			ssh, err := a.SSHKeys(c.URN.Name)
			if err == nil {
				err = replaceKeys(t, c.URN, ssh, now)
			}
			if err != nil {
				return err
			}
		}
		for _, c := range slices {
			if _, ok, err := get[Slice](t, sliceRecords, c.URN.Key()); err != nil {
				return err
			} else if ok {
				continue
			}
			s := Slice{group: group{URN: c.URN, UID: uidOf(c), Created: c.NotBefore, Expires: now}}
			if err := errors.Join(putSlice(t, s), put(t, certificates, c.URN.Key(), c.Raw)); err != nil {
				return err
			}
		}
		return nil
	})
}

// uidOf returns the UUID of a certificate.
func uidOf(c *cert.Certificate) string {
	for _, u := range c.URIs {
		if id, ok := strings.CutPrefix(u.String(), "urn:uuid:"); ok {
			return id
		}
	}
	return uuid.NewString()
}

// addMember writes the record of a member with the certificate c, unless the record exists.
func addMember(t *tx, c *cert.Certificate, now time.Time) error {
	if _, ok, err := get[Member](t, members, c.URN.Key()); ok || err != nil {
		return err
	}
	if count(t, members) >= maxMembers {
		return refuse(Argument, "the authority has %d members, the limit", maxMembers)
	}
	m := Member{URN: c.URN, UID: uidOf(c), Created: now.UTC()}
	if len(c.EmailAddresses) > 0 {
		m.Email = c.EmailAddresses[0]
	}
	return put(t, members, c.URN.Key(), m)
}

// replaceKeys replaces the keys that commands wrote. lines has one key a line.
func replaceKeys(t *tx, u urn.URN, lines []byte, now time.Time) error {
	old, err := keysOf(t, u)
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, k := range old {
		if !k.ByCommand {
			present[k.ID] = true
		} else if err := removeKey(t, k); err != nil {
			return err
		}
	}
	for line := range bytes.Lines(lines) {
		k := Key{Member: u, Type: "ssh", Public: string(bytes.TrimSpace(line)), Created: now.UTC(), ByCommand: true}
		if k.ID = keyID(k); present[k.ID] {
			continue
		}
		if err := putKey(t, k); err != nil {
			return err
		}
	}
	return nil
}

// UserWithKeys is like the method of trial.Authority, and keeps the user and their SSH keys in the
// state. It refuses the name of a removed member.
func (a *Authority) UserWithKeys(name string, ssh []byte, now time.Time) (trial.User, error) {
	return a.ensureUser(name, ssh, now, func(t *tx, u trial.User) error { return replaceKeys(t, u.URN, u.SSHPublicKey, now) })
}

// UserForPages creates a user who adds SSH keys in the pages. The state gets no key that only this host has.
func (a *Authority) UserForPages(name string, now time.Time) error {
	_, err := a.ensureUser(name, nil, now, func(*tx, trial.User) error { return nil })
	return err
}

func (a *Authority) ensureUser(name string, ssh []byte, now time.Time, keys func(*tx, trial.User) error) (trial.User, error) {
	if err := a.checkRemoved(name); err != nil {
		return trial.User{}, err
	}
	u, err := a.Authority.UserWithKeys(name, ssh, now)
	if err != nil {
		return u, err
	}
	list, err := cert.ParsePEM(u.Certificate)
	if err != nil {
		return u, err
	}
	return u, a.store.update(func(t *tx) error { return errors.Join(addMember(t, list[0], now), keys(t, u)) })
}

func (a *Authority) checkRemoved(name string) error {
	u := urn.URN{Authority: a.URN().Authority, Type: urn.User, Name: name}
	return a.store.view(func(t *tx) error {
		m, _, err := get[Member](t, members, u.Key())
		if err == nil && !m.Removed.IsZero() {
			return refuse(Argument, "%s was removed on %s, and removed names are never given again; choose another name", u, m.Removed.Format(time.DateOnly))
		}
		return err
	})
}

// Issued is a slice and the credential of one of its members.
type Issued struct {
	URN, Owner urn.URN
	// Credential is the slice credential, a signed XML document.
	Credential []byte
	Expires    time.Time
}

// Slice returns the slice of that name with a new credential for owner, who must be an existing
// user. It creates the slice, adds owner as LEAD or ADMIN, and renews the slice until expires, if
// necessary. It is for operators: members use the calls of the API.
func (a *Authority) Slice(name, owner string, expires, now time.Time) (Issued, error) {
	if err := trial.CheckSlice(name); err != nil {
		return Issued{}, err
	}
	text, err := a.UserCertificate(owner)
	if err != nil {
		return Issued{}, err
	}
	list, err := cert.ParsePEM(text)
	if err != nil {
		return Issued{}, err
	}
	u, user := urn.URN{Authority: a.URN().Authority, Type: urn.Slice, Name: name}, list[0].URN
	expires = expires.UTC().Truncate(time.Second)
	var s Slice
	err = a.store.update(func(t *tx) error {
		var ok bool
		if s, ok, err = get[Slice](t, sliceRecords, u.Key()); err != nil {
			return err
		}
		if !ok || s.isExpired(now) && len(s.Members) > 0 {
			if s, err = a.newSlice(t, u, urn.URN{}, now); err != nil {
				return err
			}
		}
		switch role := s.roleOf(user); {
		case role != "":
		case len(s.Members) == 0:
			s.Members = []Membership{{Member: user, Role: Lead, Accepted: true}}
		default:
			s.Members = append(s.Members, Membership{Member: user, Role: Admin, Accepted: true})
		}
		if expires.After(s.Expires) {
			s.Expires = expires
		}
		return putSlice(t, s)
	})
	if err != nil {
		return Issued{}, err
	}
	credential, err := a.credentialOf(s, user, expires, now)
	return Issued{s.URN, user, credential, expires}, err
}

// newSlice writes the certificate of a new slice, and returns its record without members.
func (a *Authority) newSlice(t *tx, u, project urn.URN, now time.Time) (Slice, error) {
	c, err := a.NewSlice(u, now)
	if err != nil {
		return Slice{}, refuse(Argument, "%v", err)
	}
	s := Slice{group{URN: c.URN, UID: uidOf(c), Created: now.UTC().Truncate(time.Second)}, project}
	return s, put(t, certificates, u.Key(), c.Raw)
}

// credentialOf returns the credential of a member with the privileges of their role.
func (a *Authority) credentialOf(s Slice, member urn.URN, expires, now time.Time) (credential []byte, err error) {
	var raw []byte
	err = a.store.view(func(t *tx) (err error) {
		raw, _, err = get[[]byte](t, certificates, s.URN.Key())
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := cert.Parse(raw)
	if err != nil {
		return nil, refuse(Database, "the certificate of %s: %v", s.URN, err)
	}
	return a.SliceCredential(c, member.Name, privileges[s.roleOf(member)], expires, now)
}

// HasSlice reports whether there is a slice of that name.
func (a *Authority) HasSlice(name string) (has bool, err error) {
	u := urn.URN{Authority: a.URN().Authority, Type: urn.Slice, Name: name}
	err = a.store.view(func(t *tx) (err error) {
		_, has, err = get[Slice](t, sliceRecords, u.Key())
		return err
	})
	return has, err
}
