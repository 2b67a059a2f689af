package authority

import (
	"errors"
	"math"
	"time"

	"patchbay/am/urn"
)

// NewFeed returns the secret of a member's calendar feed. It ends the earlier feed of the member.
func (a *Authority) NewFeed(member urn.URN, now time.Time) (secret string, err error) {
	secret, key := newSecret()
	err = a.store.update(func(t *tx) error {
		m, err := a.member(t, member.Name)
		if err != nil {
			return err
		}
		_, err = endAccess(t, m.URN.Key(), feeds)
		return errors.Join(err, putAccess(t, feeds, key, access{Member: m.URN, Created: now.UTC()}))
	})
	return secret, err
}

// EndFeed ends the calendar feed of a member. It does nothing if there is none.
func (a *Authority) EndFeed(member urn.URN) error {
	return a.store.update(func(t *tx) error {
		_, err := endAccess(t, member.Key(), feeds)
		return err
	})
}

// HasFeed reports whether a member has a calendar feed.
func (a *Authority) HasFeed(member urn.URN) (has bool, err error) {
	err = a.store.view(func(t *tx) error {
		has = len(following(t, accessOf, math.MaxInt, member.Key(), string(feeds))) > 0
		return nil
	})
	return has, err
}

// FeedOf returns the member whose feed has the secret. It returns false if no feed has it, or the member was removed.
func (a *Authority) FeedOf(secret string) (member urn.URN, ok bool, err error) {
	var x access
	err = a.store.view(func(t *tx) (err error) {
		if x, ok, err = get[access](t, feeds, secretKey(secret)); err == nil && ok {
			ok, err = isPresent(t, x)
		}
		return err
	})
	return x.Member, ok && err == nil, err
}
