package site

import (
	"errors"
	"testing"

	"patchbay/am"
	"patchbay/am/urn"
)

func TestFindUnmanaged(t *testing.T) {
	slice := func(name string) urn.URN { return urn.MustParse("urn:publicid:IDN+testbed.example.org+slice+" + name) }
	made := func(by, in string) am.Sliver { return am.Sliver{Provider: by, Slice: slice(in)} }
	got := findUnmanaged([]am.Sliver{made("rack", "b"), made("", "a"), made("good", "a"), made("rack", "a"), made("rack", "b"), made("farm", "c")}, func(name string) error {
		if name == "good" {
			return nil
		}
		return errors.New(name + " is broken")
	})
	want := []string{
		"the provider farm has made 1 sliver of " + slice("c").String() + ", which can be neither watched nor removed: farm is broken",
		"the provider rack has made 3 slivers of " + slice("a").String() + " and 1 more slice, which can be neither watched nor removed: rack is broken",
	}
	if len(got) != len(want) {
		t.Fatalf("%v, want %q", got, want)
	}
	for i, o := range got {
		if o.String() != want[i] {
			t.Errorf("%s, want %s", o, want[i])
		}
	}
}
