package main

import (
	"path/filepath"
	"testing"

	"patchbay/am/testkit/wait"
)

// TestOnHostNodeJoinsALink adds a real node to the link of two others, and then removes one of
// the two. The others know its DNS name.
func TestOnHostNodeJoinsALink(t *testing.T) {
	s := newLocalSite(t, "join.example.org")
	s.createUsers("first")
	s.start()
	pair, later := filepath.Join(s.dir, "pair.xml"), filepath.Join(s.dir, "later.xml")
	write(t, pair, `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3">
  <node client_id="a"><interface client_id="a:0"/></node>
  <node client_id="b"><interface client_id="b:0"/></node>
  <link client_id="lan"><interface_ref client_id="a:0"/><interface_ref client_id="b:0"/></link>
</rspec>
`)
	write(t, later, `<rspec type="request" xmlns="http://www.geni.net/resources/rspec/3" xmlns:net="http://patchbay.example.org/rspec/ext/net/1">
  <node client_id="c"><interface client_id="c:0"><net:dns name="www.example.org"/></interface></node>
  <link client_id="lan" net:join="true"><interface_ref client_id="c:0"/></link>
</rspec>
`)
	s.createNodes(pair, 2)
	s.createNodes(later, 3)
	doors := s.logins()
	ping := func(from, to string) {
		t.Helper()
		wait.Until(t, from+" reaches "+to+" on the link", func() bool {
			_, err := s.ssh("alice", doors[from], "ping -c 1 -W 1 "+to+"-lan")
			return err == nil
		})
	}
	ping("c", "a")
	ping("c", "b")
	ping("a", "c")
	s.wantOutput("alice", doors["c"], "hostname", "www\n")
	s.wantOutput("alice", doors["a"], "getent hosts www www.example.org | cut -d ' ' -f 1 | uniq | wc -l", "1\n")
	s.call("Delete", "a")
	ping("b", "c")
}
