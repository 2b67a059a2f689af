package service

import (
	"time"

	"patchbay/am"
	"patchbay/am/service/policy"
	"patchbay/am/store"
)

// quotas has what users hold while a call changes the ends of slivers, those that it has changed already included. The zero
// value is ready for use by one decision.
type quotas struct {
	users map[string]*userQuota
	moves []endMove
}

// userQuota has what counts for the slivers that one user reserved in a slice.
type userQuota struct {
	permit *policy.Permit
	held   *policy.Timeline // nil if the rule has no quotas
	ahead  policy.Ahead
}

type endMove struct {
	hold  am.Hold // as it was
	until time.Time
}

// move records that the end of a sliver is now that of x. hold is what it held before.
func (q *quotas) move(hold am.Hold, x *am.Sliver) {
	m := endMove{hold, am.HoldOf(x).Until}
	if m.until.Equal(hold.Until) || m.until.IsZero() || hold.Until.IsZero() {
		return
	}
	q.moves = append(q.moves, m)
	for _, u := range q.users {
		u.move(&m)
	}
}

func (u *userQuota) move(m *endMove) {
	if u.held != nil {
		u.held.Move(&m.hold, m.until)
	}
	u.ahead.Move(&m.hold, m.until)
}

// of returns what counts for x. The policy's rule is that for the user who reserved x.
func (q *quotas) of(s *Service, v *store.View, x *am.Sliver) (u *userQuota, err error) {
	key := x.Creator.Key()
	if u = q.users[key]; u != nil {
		return u, nil
	}
	u = &userQuota{permit: s.cfg.Policy.For(x.Creator, x.Slice), ahead: policy.AheadOf(x.Creator)}
	calendar := policy.Calendar(func(f func(*am.Hold) bool) error {
		return v.CalendarOf(time.Time{}, policy.Counts(x.Creator, x.Slice), f)
	})
	if u.permit.HasQuotas() {
		if u.held, err = calendar.Timeline(x.Creator, x.Slice, v.Now(), time.Time{}, v.Now()); err != nil {
			return nil, err
		}
	}
	if u.permit.LimitsAhead() {
		if err = calendar(func(h *am.Hold) bool { u.ahead.Add(h); return true }); err != nil {
			return nil, err
		}
	}
	for i := range q.moves {
		u.move(&q.moves[i])
	}
	if q.users == nil {
		q.users = map[string]*userQuota{}
	}
	q.users[key] = u
	return u, nil
}

// limitEnd returns until, or an earlier time if x cannot be prolonged until then: because of a reservation that begins
// later, or of a quota of the policy that would be exceeded. limit is a text for what limits.
func (s *Service) limitEnd(v *store.View, q *quotas, x *am.Sliver, until time.Time) (end time.Time, limit string, err error) {
	if end, err = s.freeUntil(v, x, until); err == nil && end.Before(until) {
		limit, err = s.nextReservation(v, x, end)
	}
	if err != nil || !v.HasWaiting() {
		return end, limit, err
	}
	u, err := q.of(s, v, x)
	if err != nil {
		return end, limit, err
	}
	h := am.HoldOf(x)
	if u.held != nil {
		if at, rule := u.permit.Until(u.held, &h, end); at.Before(end) {
			end, limit = at, rule
		}
	}
	if x.Waits() {
		if at, rule := u.permit.UntilAhead(u.ahead, &h, end); at.Before(end) {
			end, limit = at, rule
		}
	}
	return end, limit, nil
}
