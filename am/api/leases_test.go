package api

import (
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/xmlrpc"
)

// TestRenew has a reservation and a provisioned sliver in one slice, and a
// credential of 20 days. Times are told from now; limits are two hours for the
// one, the credential for the other.
func TestRenew(t *testing.T) {
	b := newBench(t)
	now := b.clock()
	const day = 24 * time.Hour
	at := func(d time.Duration) string { return formatTime(now.Add(d)) }
	short, cred := "", creds(b.cred)
	_, short = b.alice.slice("bench", 5*day)
	effort, alap := opt("geni_best_effort", true), opt("geni_extend_alap", true)
	const left = time.Duration(0) // it has the lease that it had
	reserved, made := 10*time.Minute, day+10*time.Minute
	for _, tt := range []struct {
		rule    string
		until   string
		options []xmlrpc.Member
		cred    string
		code    am.Code
		x, y    time.Duration
		says    string // in the output, or in the geni_error of x
	}{
		{"both to the same second", at(time.Hour), nil, b.cred, am.Success, time.Hour, time.Hour, ""},
		{"to the limit of the reservation", at(2 * time.Hour), nil, b.cred, am.Success, 2 * time.Hour, 2 * time.Hour, ""},
		{"a second beyond it: neither", at(2*time.Hour + time.Second), nil, b.cred, am.Refused, left, left, "the latest time is " + at(2*time.Hour)},
		{"beyond it, best effort: the other", at(3 * day), []xmlrpc.Member{effort}, b.cred, am.Success, left, 3 * day, "the latest time is " + at(2*time.Hour)},
		{"beyond both, best effort: an error", at(21 * day), []xmlrpc.Member{effort}, b.cred, am.Refused, left, left, "the latest time is"},
		{"beyond one, as long as possible: each to its limit", at(3 * day), []xmlrpc.Member{alap}, b.cred, am.Success, 2 * time.Hour, 3 * day, ""},
		{"beyond both, as long as possible", at(400 * day), []xmlrpc.Member{alap}, b.cred, am.Success, 2 * time.Hour, 20 * day, ""},
		{"shorter", at(time.Minute), nil, b.cred, am.Success, time.Minute, time.Minute, ""},
		{"as long as possible never shortens", at(time.Minute), []xmlrpc.Member{alap}, b.cred, am.Success, left, left, ""},
		{"as long as possible between the two", at(time.Hour), []xmlrpc.Member{alap}, b.cred, am.Success, time.Hour, left, ""},
		{"a shorter credential limits", at(6 * day), []xmlrpc.Member{effort}, short, am.Refused, left, left, "the latest time is"},
		{"a shorter credential, as long as possible", at(6 * day), []xmlrpc.Member{alap}, short, am.Success, 2 * time.Hour, 5 * day, ""},
		{"now is past", at(0), nil, b.cred, am.BadArgs, left, left, "past"},
		{"past, best effort", at(-time.Second), []xmlrpc.Member{effort}, b.cred, am.BadArgs, left, left, "past"},
		{"past, as long as possible", at(-time.Hour), []xmlrpc.Member{alap}, b.cred, am.BadArgs, left, left, "past"},
		{"geni_end_time is no option of Renew", at(time.Hour), []xmlrpc.Member{opt("geni_end_time", at(30*time.Minute))}, b.cred, am.Success, time.Hour, time.Hour, ""},
		{"as omni writes it", strings.Replace(at(time.Hour), "Z", "+00:00", 1), nil, b.cred, am.Success, time.Hour, time.Hour, ""},
		{"without an offset", strings.TrimSuffix(at(time.Hour), "Z"), nil, b.cred, am.Success, time.Hour, time.Hour, ""},
		{"with a fraction, cut off", strings.Replace(at(time.Hour), "Z", ".999Z", 1), nil, b.cred, am.Success, time.Hour, time.Hour, ""},
		{"with an offset", now.Add(time.Hour).In(time.FixedZone("", -5400)).Format(time.RFC3339), nil, b.cred, am.Success, time.Hour, time.Hour, ""},
		{"a fraction cut off is no later than the limit", strings.Replace(at(2*time.Hour), "Z", ".5Z", 1), nil, b.cred, am.Success, 2 * time.Hour, 2 * time.Hour, ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			b.put(in(b.x, "allocated"), in(b.y, "ready"))
			a := b.alice.call("Renew", strs(b.slice), creds(tt.cred), tt.until, opts(tt.options...)).want(t, tt.rule, tt.code)
			says := a.output
			if tt.code == am.Refused && a.detail != int(am.OutOfRange) {
				t.Errorf("am_code %d", a.detail)
			}
			want := map[string]string{b.x.URN.String(): at(tt.x), b.y.URN.String(): at(tt.y)}
			if tt.x == left {
				want[b.x.URN.String()] = at(reserved)
			}
			if tt.y == left {
				want[b.y.URN.String()] = at(made)
			}
			if tt.code == am.Success {
				for _, s := range a.slivers(t) {
					if get(s, "geni_expires") != want[get(s, "geni_sliver_urn").(string)] {
						t.Errorf("Renew tells %v", s)
					}
					says += get(s, "geni_error").(string)
				}
			}
			for _, s := range b.alice.call("Status", strs(b.slice), cred, opts()).want(t, "Status", am.Success).slivers(t) {
				if u := get(s, "geni_sliver_urn").(string); get(s, "geni_expires") != want[u] {
					t.Errorf("%v until %v, want %s", get(s, "geni_client_id"), get(s, "geni_expires"), want[u])
				}
			}
			if !strings.Contains(says, tt.says) {
				t.Errorf("it says %q, want %q", says, tt.says)
			}
		})
	}
}

// TestLongerCredentialRenews: a slice that was renewed at its authority shows
// only in the credential.
func TestLongerCredentialRenews(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, short := alice.slice("longer", 2*time.Hour)
	_, long := alice.slice("longer", 9*time.Hour)
	alice.call("Allocate", slice, creds(short), request(node("a")), opts()).want(t, "Allocate", am.Success)
	alice.call("Provision", strs(slice), creds(short), opts()).want(t, "Provision", am.Success)
	to := formatTime(s.clock().Add(8 * time.Hour))
	alice.call("Renew", strs(slice), creds(short), to, opts()).want(t, "with the old credential", am.Refused)
	alice.call("Renew", strs(slice), creds(short, long), to, opts()).want(t, "with both", am.Success)
	// Shown the shorter one again, as long as possible does not shorten.
	a := alice.call("Renew", strs(slice), creds(short), to, opts(opt("geni_extend_alap", true))).want(t, "with the old one again", am.Success)
	if got := get(a.slivers(t)[0], "geni_expires"); got != to {
		t.Errorf("until %v, want %s", got, to)
	}
}

// TestWishes has all that geni_end_time may be in Allocate and in Provision.
func TestWishes(t *testing.T) {
	s := newSite(t)
	alice := s.user("alice")
	slice, cred := alice.slice("wishes", 20*24*time.Hour)
	at := func(d time.Duration) string { return formatTime(s.clock().Add(d)) }
	end := func(d time.Duration) []xmlrpc.Member {
		if d == 0 {
			return nil
		}
		return []xmlrpc.Member{opt("geni_end_time", at(d))}
	}
	const day = 24 * time.Hour
	for _, tt := range []struct {
		rule             string
		allocate         time.Duration // the wish; 0 for none
		wait             time.Duration
		provision        time.Duration
		reserved, leased time.Duration // from Allocate, from Provision
		refused          am.Code
	}{
		{"no wish", 0, 0, 0, 10 * time.Minute, day, 0},
		{"Allocate's is for the lease, and ends no reservation early that it outlasts", 3 * day, 0, 0, 10 * time.Minute, 3 * day, 0},
		{"one before the reservation's end ends it, too", 5 * time.Minute, 0, 0, 5 * time.Minute, 5 * time.Minute, 0},
		{"Provision's own counts", 3 * day, 0, 2 * day, 10 * time.Minute, 2 * day, 0},
		{"Provision's before the reservation's end", 0, 0, 3 * time.Minute, 10 * time.Minute, 3 * time.Minute, 0},
		{"beyond the credential is cut to it", 90 * day, 0, 0, 10 * time.Minute, 20 * day, 0},
		{"Provision's beyond it, too", 0, 0, 90 * day, 10 * time.Minute, 20 * day, 0},
		{"time passes between the two", 3 * day, 9 * time.Minute, 0, 10 * time.Minute, 3*day - 9*time.Minute, 0},
		{"the past in Provision", 0, 0, -time.Second, 10 * time.Minute, 0, am.BadArgs},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			began := s.clock()
			defer func() { s.pass(began.Sub(s.clock())) }()
			a := alice.call("Allocate", slice, creds(cred), request(node("a")), opts(end(tt.allocate)...)).want(t, "Allocate", am.Success)
			if got := get(a.slivers(t)[0], "geni_expires"); got != at(tt.reserved) {
				t.Errorf("reserved until %v, want %s", got, at(tt.reserved))
			}
			s.pass(tt.wait)
			a = alice.call("Provision", strs(slice), creds(cred), opts(end(tt.provision)...)).want(t, "Provision", tt.refused)
			if tt.refused == am.Success {
				if got := get(a.slivers(t)[0], "geni_expires"); got != at(tt.leased) {
					t.Errorf("leased until %v, want %s", got, at(tt.leased))
				}
			} else if got := get(alice.call("Status", strs(slice), creds(cred), opts()).slivers(t)[0], "geni_expires"); got != at(tt.reserved) {
				t.Errorf("after a refusal reserved until %v, want %s", got, at(tt.reserved))
			}
			alice.call("Delete", strs(slice), creds(cred), opts()).want(t, "Delete", am.Success)
			s.settle()
		})
	}
}
