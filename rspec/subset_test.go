package rspec_test

import (
	"testing"

	"patchbay/am/urn"
	"patchbay/rspec"
)

// TestOnlyLeavesOtherBytesAsTheyAre proves that a part of a request is the request without the omitted
// nodes and the links that have no other nodes.
func TestOnlyLeavesOtherBytesAsTheyAre(t *testing.T) {
	const text = `<?xml version="1.0"?>
<r:rspec type="request" xmlns:r="http://www.geni.net/resources/rspec/3" xmlns:x="urn:x"><!-- all -->
  <r:node client_id="a"><x:y z = '1'/><r:interface client_id="a:0"/></r:node>
  <r:node client_id="b"><r:interface client_id="b:0"/></r:node>
  <r:link client_id="l"><r:interface_ref client_id="b:0"/></r:link>
  <r:link client_id="m"><r:interface_ref client_id="a:0"/></r:link>
  <x:other/>
</r:rspec>
`
	const want = `<?xml version="1.0"?>
<r:rspec type="request" xmlns:r="http://www.geni.net/resources/rspec/3" xmlns:x="urn:x"><!-- all -->
  <r:node client_id="a"><x:y z = '1'/><r:interface client_id="a:0"/></r:node>
  <r:link client_id="m"><r:interface_ref client_id="a:0"/></r:link>
  <x:other/>
</r:rspec>
`
	us := urn.URN{Authority: "example.org", Type: urn.Authority, Name: "cm"}
	r, err := rspec.ParseRequest([]byte(text), rspec.ReadOptions{Managers: []urn.URN{us}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Only(func(id string) bool { return id == "a" })
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if all, err := r.Only(func(string) bool { return true }); err != nil || string(all) != text {
		t.Errorf("%v\n%s", err, all)
	}
}
