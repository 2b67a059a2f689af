package authority

import (
	"bytes"
	"testing"
)

func TestFeeds(t *testing.T) {
	alice := mustURN(userURN("alice"))
	for _, x := range []struct {
		rule   string
		change func(f *fixture)
		want   bool
	}{
		{"new", func(*fixture) {}, true},
		{"after a restart", func(f *fixture) { f.open() }, true},
		{"ended", func(f *fixture) { f.do(f.EndFeed(alice)) }, false},
		{"another one takes its place", func(f *fixture) { _, err := f.NewFeed(alice, f.now); f.do(err) }, false},
		{"a feed of another member", func(f *fixture) { _, err := f.NewFeed(mustURN(userURN("bob")), f.now); f.do(err) }, true},
		{"another member's feed ended", func(f *fixture) { f.do(f.EndFeed(mustURN(userURN("bob")))) }, true},
		{"signed out", func(f *fixture) { _, err := f.SignOut("alice"); f.do(err) }, false},
		{"the member was removed", func(f *fixture) { f.do(f.Remove("alice", f.now)) }, false},
		{"after a restore or a copy", func(f *fixture) { f.do(f.EndSessionsAndLinks()) }, false},
		{"one session ended", func(f *fixture) { f.do(f.EndSession(f.signIn("alice"))) }, true},
		{"a new sign-in link", func(f *fixture) { f.newLink("alice") }, true},
	} {
		f := newFixture(t)
		secret, err := f.NewFeed(alice, f.now)
		f.do(err)
		x.change(f)
		member, ok, err := f.FeedOf(secret)
		if ok != x.want || ok && !member.Equal(alice) || err != nil {
			t.Errorf("%s: %t, feed of %s: %v", x.rule, ok, member, err)
		}
	}
	f := newFixture(t)
	secret, err := f.NewFeed(alice, f.now)
	f.do(err)
	for _, wrong := range []string{"", f.newLink("alice"), f.signIn("alice"), secretKey(secret), secret[1:]} {
		if _, ok, err := f.FeedOf(wrong); ok || err != nil {
			t.Errorf("%q is a feed: %v", wrong, err)
		}
	}
	if f.has(secret) {
		t.Error("the secret of a feed is a session")
	}
	if _, err := f.ReadLink(secret, f.now); err == nil {
		t.Error("the secret of a feed is a link")
	}
	var text bytes.Buffer
	f.do(f.Backup(&text))
	if bytes.Contains(text.Bytes(), []byte(secret)) {
		t.Error("the database has the secret of a feed")
	}
}
