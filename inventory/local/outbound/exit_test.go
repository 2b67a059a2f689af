package outbound

import (
	"testing"

	"patchbay/testdata/bottle"
)

func TestNodesFetchByName(t *testing.T) {
	b := bottle.New(t, bottle.Options{})
	e := open(t, options(t, b, "out-t"))
	node := attach(t, e, 1)
	if got, err := fetch(node, "http://www.example.org/a"); err != nil || got != "www.example.org/a" {
		t.Errorf("by name: %q, %v", got, err)
	}
	if got, err := fetch(node, "http://"+bottle.Web+"/b"); err != nil || got != bottle.Web+"/b" {
		t.Errorf("by address: %q, %v", got, err)
	}
}
