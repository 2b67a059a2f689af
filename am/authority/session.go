package authority

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	bbolterrors "go.etcd.io/bbolt/errors"

	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
)

const (
	// LinkLife is how long a link can be used, unless it is an invitation.
	LinkLife = 15 * time.Minute
	// SessionIdle is how long a session lasts without a request.
	SessionIdle = 12 * time.Hour
	// SessionLife is how long a session lasts at most.
	SessionLife = 7 * 24 * time.Hour
	// SignInPath is the path of a link at the URL of the pages, before its secret.
	SignInPath = "/ui/sign-in/"
)

const (
	// useStep is how old the recorded last use of a session gets before it is written again.
	useStep = 5 * time.Minute
	// maxSessions limits the sessions of a member, and those of an operator. A new one ends the one that was used first.
	maxSessions = 20
	// operatorOwner is the owner of operators' links and sessions in the index; those of members are URNs.
	operatorOwner = "operator"
)

// access is a link, a session or a feed. The database has only the hash of its secret.
type access struct {
	Member   urn.URN   `json:",omitzero"`
	Operator string    `json:",omitempty"`
	Created  time.Time // of a session: when the person signed in
	Expires  time.Time // of a session: its end if it is used all the time
	// Used is when a link was used, or the last use of a session.
	Used time.Time `json:",omitzero"`
}

func (x *access) owner() string {
	if x.Operator != "" {
		return join(operatorOwner, x.Operator)
	}
	return x.Member.Key()
}

// end returns when a session ends without further use.
func (x *access) end() time.Time {
	if idle := x.Used.Add(SessionIdle); idle.Before(x.Expires) {
		return idle
	}
	return x.Expires
}

// Visitor is somebody who may see pages by a link or a session.
type Visitor struct {
	Member   urn.URN // zero for an operator
	Operator string  // "" for a member
	// Ends is the end of the link, or of the session if it is not used again.
	Ends time.Time
	// ID names a session. It does not reveal the session's secret. It is "" for a link.
	ID                string
	SignedIn, LastUse time.Time // of a session; LastUse may be a few minutes early
}

// Name returns the name of the member or of the operator.
func (v Visitor) Name() string { return cmp.Or(v.Operator, v.Member.Name) }

func (x *access) visitor(id string) Visitor {
	return Visitor{Member: x.Member, Operator: x.Operator, Ends: x.end(), ID: id, SignedIn: x.Created, LastUse: x.Used}
}

// newSecret returns 256 random bits in base64url, and the key that their record gets.
func newSecret() (secret, key string) {
	var b [sha256.Size]byte
	rand.Read(b[:])
	secret = base64.RawURLEncoding.EncodeToString(b[:])
	return secret, secretKey(secret)
}

func secretKey(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// NewLink returns the secret of a link that signs the member in once, and when it expires. It ends the earlier
// link of the member.
func (a *Authority) NewLink(name string, life time.Duration, now time.Time) (secret string, ends time.Time, err error) {
	return a.newLink(life, now, func(t *tx) (access, error) {
		m, err := a.member(t, name)
		return access{Member: m.URN}, err
	})
}

// CanSignIn reports whether a member has a link that can be used, or is signed in.
func (a *Authority) CanSignIn(name string, now time.Time) (can bool, err error) {
	err = a.store.view(func(t *tx) error {
		m, err := a.member(t, name)
		if err != nil {
			return err
		}
		ends, err := linkEnd(t, m.URN, now)
		if can = !ends.IsZero(); err != nil {
			return err
		}
		return eachSession(t, m.URN.Key(), func(_ string, x access) error {
			can = can || now.Before(x.end())
			return nil
		})
	})
	return can, err
}

// LinkEnd returns when the link of a member expires; zero if they have none that can be used.
func (a *Authority) LinkEnd(member urn.URN, now time.Time) (ends time.Time, err error) {
	err = a.store.view(func(t *tx) (err error) {
		ends, err = linkEnd(t, member, now)
		return err
	})
	return ends, err
}

func linkEnd(t *tx, member urn.URN, now time.Time) (ends time.Time, err error) {
	for _, key := range following(t, accessOf, math.MaxInt, member.Key(), string(links)) {
		x, _, err := get[access](t, links, key)
		if err != nil {
			return ends, err
		}
		if x.Used.IsZero() && now.Before(x.Expires) {
			ends = x.Expires
		}
	}
	return ends, nil
}

// NewOperatorLink returns the secret of a link that signs an operator in once, and when it expires. It ends the
// earlier link of the same operator.
func (a *Authority) NewOperatorLink(operator string, now time.Time) (secret string, ends time.Time, err error) {
	return a.newLink(LinkLife, now, func(*tx) (x access, err error) {
		if operator == "" || strings.ContainsFunc(operator, isHidden) {
			err = refuse(Argument, "%q cannot name an operator", operator)
		}
		return access{Operator: operator}, err
	})
}

func (a *Authority) newLink(life time.Duration, now time.Time, who func(*tx) (access, error)) (secret string, ends time.Time, err error) {
	secret, key := newSecret()
	ends = now.Add(life).UTC().Truncate(time.Second)
	err = a.store.update(func(t *tx) error {
		x, err := who(t)
		if err != nil {
			return err
		}
		x.Created, x.Expires = now.UTC(), ends
		_, err = endAccess(t, x.owner(), links)
		return errors.Join(err, putAccess(t, links, key, x))
	})
	return secret, ends, err
}

const linkRemedy = "ask your teacher or the operator of this site for a new one"

// ReadLink returns who would sign in by a link. It fails if the link was used, has expired or is unknown.
func (a *Authority) ReadLink(secret string, now time.Time) (v Visitor, err error) {
	err = a.store.view(func(t *tx) error {
		x, err := a.readLink(t, secretKey(secret), now)
		v = Visitor{Member: x.Member, Operator: x.Operator, Ends: x.Expires}
		return err
	})
	return v, err
}

func (a *Authority) readLink(t *tx, key string, now time.Time) (x access, err error) {
	x, ok, err := get[access](t, links, key)
	if err == nil && ok {
		ok, err = isPresent(t, x)
	}
	switch {
	case err != nil:
	case !ok:
		err = refuse(Authorization, "this link is unknown: it is not complete, a later link has replaced it, or it is of another site. Check that you have copied all of it, or %s", linkRemedy)
	case !x.Used.IsZero():
		err = refuse(Authorization, "this link was used at %s, and a link works once; %s", api.FormatTime(x.Used), linkRemedy)
	case !now.Before(x.Expires):
		err = refuse(Authorization, "this link expired at %s; %s", api.FormatTime(x.Expires), linkRemedy)
	}
	return x, err
}

// isPresent reports whether the owner of a link or session is an operator, or a member who was not removed.
func isPresent(t *tx, x access) (bool, error) {
	if x.Operator != "" {
		return true, nil
	}
	m, ok, err := get[Member](t, members, x.Member.Key())
	return ok && m.Removed.IsZero(), err
}

// UseLink uses a link, and returns the secret of a new session. It fails as ReadLink does.
func (a *Authority) UseLink(secret string, now time.Time) (session string, v Visitor, err error) {
	session, id := newSecret()
	err = a.store.update(func(t *tx) error {
		link, err := a.readLink(t, secretKey(secret), now)
		if err != nil {
			return err
		}
		link.Used = now.UTC()
		s := access{Member: link.Member, Operator: link.Operator, Created: now.UTC(), Expires: now.Add(SessionLife).UTC(), Used: now.UTC()}
		v = s.visitor(id)
		return errors.Join(put(t, links, secretKey(secret), link), makeSessionRoom(t, s.owner(), now), putAccess(t, sessions, id, s))
	})
	if err != nil {
		return "", Visitor{}, err
	}
	return session, v, nil
}

// Session returns whose session it is. It returns false if the session has ended, or its member was removed.
func (a *Authority) Session(secret string, now time.Time) (v Visitor, ok bool, err error) {
	var x access
	key := secretKey(secret)
	read := func(t *tx) (err error) {
		if x, ok, err = get[access](t, sessions, key); err == nil && ok {
			ok, err = isPresent(t, x)
			ok = ok && now.Before(x.end())
		}
		return err
	}
	if err := a.store.view(read); err != nil || !ok {
		return Visitor{}, false, err
	}
	if now.Sub(x.Used) >= useStep {
		err := a.store.update(func(t *tx) error {
			if err := read(t); err != nil || !ok {
				return err
			}
			x.Used = now.UTC()
			return put(t, sessions, key, x)
		})
		if !ok {
			return Visitor{}, false, err
		} // a use that cannot be written, as on a full disk, only ends the session earlier
	}
	return x.visitor(key), true, nil
}

// EndSession ends one session. It does nothing if there is none.
func (a *Authority) EndSession(secret string) error {
	key := secretKey(secret)
	return a.store.update(func(t *tx) error {
		x, ok, err := get[access](t, sessions, key)
		if err != nil || !ok {
			return err
		}
		return removeAccess(t, sessions, key, x)
	})
}

// SignOut ends all sessions and links of a member, and their feed. It returns the number of sessions.
func (a *Authority) SignOut(name string) (ended int, err error) {
	err = a.store.update(func(t *tx) error {
		m, err := a.member(t, name)
		if err == nil {
			ended, err = endAccess(t, m.URN.Key(), links, sessions, feeds)
		}
		return err
	})
	return ended, err
}

// SignOutOperators ends all sessions and links of operators, and returns the number of sessions.
func (a *Authority) SignOutOperators() (ended int, err error) {
	err = a.store.update(func(t *tx) (err error) {
		ended, err = endAccess(t, operatorOwner, links, sessions)
		return err
	})
	return ended, err
}

// SessionsOf returns the sessions of a member, in the order of their beginnings.
func (a *Authority) SessionsOf(member urn.URN, now time.Time) (list []Visitor, err error) {
	err = a.store.view(func(t *tx) error {
		return eachSession(t, member.Key(), func(key string, x access) error {
			if now.Before(x.end()) {
				list = append(list, x.visitor(key))
			}
			return nil
		})
	})
	slices.SortFunc(list, func(a, b Visitor) int { return a.SignedIn.Compare(b.SignedIn) })
	return list, err
}

// EndSessionsAndLinks ends the sessions and links of all. A restored or copied database may have sessions that
// were ended since.
func (a *Authority) EndSessionsAndLinks() error { return a.store.update(endAllAccess) }

func endAllAccess(t *tx) error {
	for _, b := range accesses {
		if err := t.DeleteBucket([]byte(b)); err != nil && !errors.Is(err, bbolterrors.ErrBucketNotFound) { // in an older backup
			return err
		}
		if _, err := t.CreateBucket([]byte(b)); err != nil {
			return err
		}
	}
	return nil
}

// RoleIn returns the role of a member in a slice or a project; "" if they have none.
func (a *Authority) RoleIn(group, member urn.URN) (role Role, err error) {
	err = a.store.view(func(t *tx) error {
		role, _ = roleIn(t, member, group.Key())
		return nil
	})
	return role, err
}

// CertificateChain returns the certificates of a member in DER, as the member's client would send them: the
// member's own certificate, and the one of the member authority. It fails for a removed member.
func (a *Authority) CertificateChain(member urn.URN) (chain [][]byte, err error) {
	err = a.store.view(func(t *tx) error {
		if ok, err := isPresent(t, access{Member: member}); err != nil || ok {
			return err
		}
		return refuse(Argument, "there is no member %s", member)
	})
	if err != nil {
		return nil, err
	}
	text, err := a.UserCertificate(member.Name)
	if err != nil {
		return nil, err
	}
	list, err := cert.ParsePEM(text)
	for _, c := range list {
		chain = append(chain, c.Raw)
	}
	return chain, err
}

// putAccess writes a link, a session or a feed with its index.
func putAccess(t *tx, b bucket, key string, x access) error {
	return errors.Join(put(t, b, key, x), put(t, accessOf, join(x.owner(), string(b), key), nil))
}

func removeAccess(t *tx, b bucket, key string, x access) error {
	return errors.Join(remove(t, b, key), remove(t, accessOf, join(x.owner(), string(b), key)))
}

// endAccess removes the links, sessions or feeds of an owner, or those of all operators for operatorOwner. It returns the
// number of sessions.
func endAccess(t *tx, owner string, kinds ...bucket) (ended int, err error) {
	for _, rest := range following(t, accessOf, math.MaxInt, owner) {
		parts := strings.Split(rest, "\x00") // after the name of an operator, if it is for all
		b, key := bucket(parts[len(parts)-2]), parts[len(parts)-1]
		if !slices.Contains(kinds, b) {
			continue
		}
		if b == sessions {
			ended++
		}
		if err := errors.Join(remove(t, b, key), remove(t, accessOf, join(owner, rest))); err != nil {
			return 0, err
		}
	}
	return ended, nil
}

// eachSession passes the sessions of an owner to f.
func eachSession(t *tx, owner string, f func(key string, x access) error) error {
	for _, key := range following(t, accessOf, math.MaxInt, owner, string(sessions)) {
		x, _, err := get[access](t, sessions, key)
		if err == nil {
			err = f(key, x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeSessionRoom removes the sessions of an owner that have ended, and if there are maxSessions others, the one
// that was used first.
func makeSessionRoom(t *tx, owner string, now time.Time) error {
	n, oldestKey, oldest := 0, "", access{}
	err := eachSession(t, owner, func(key string, x access) error {
		if !now.Before(x.end()) {
			return removeAccess(t, sessions, key, x)
		}
		if n++; n == 1 || x.Used.Before(oldest.Used) {
			oldestKey, oldest = key, x
		}
		return nil
	})
	if err == nil && n >= maxSessions {
		err = removeAccess(t, sessions, oldestKey, oldest)
	}
	return err
}

// signInLink answers a member's call with a link to the pages.
func signInLink(c *call) (xmlrpc.Value, error) {
	pages := ""
	if c.config.PagesURL != nil {
		pages = c.config.PagesURL()
	}
	if pages == "" {
		return nil, refuse(NotImplemented, "this site has no pages; its operator can set web in its configuration")
	}
	secret, ends, err := c.authority.NewLink(c.caller.Name, LinkLife, c.now)
	if err != nil {
		return nil, err
	}
	return xmlrpc.Struct{{Name: "url", Value: pages + SignInPath + secret}, {Name: "expires", Value: api.FormatTime(ends)}}, nil
}
