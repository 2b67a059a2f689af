package credentials_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"patchbay/credentials"
	"patchbay/credentials/dsig"
	"patchbay/credentials/testdata/pki"
)

// harmless are the places of a document that are neither signed nor read: text between the first
// and the second marker.
var harmless = []struct{ name, from, to string }{
	{"declaration of XML", "<?xml", "?>"},
	{"where a schema lies", "xsi:noNamespaceSchemaLocation=", ">"},
	{"certificate that nothing rests on", "<!-- surplus -->", "</X509Certificate>"},
}

// TestFlippedByteIsNeverAccepted flips two bits in every byte of real credentials. The result is
// refused, or the change is in a harmless place and the content read is the same.
func TestFlippedByteIsNeverAccepted(t *testing.T) {
	w := newWorld(t)
	w.slice, w.bob = pki.User(t, w.sa, sliceURN, "p256"), pki.User(t, w.sa, bobURN, "p256") // they sign nothing
	short := func(c pki.Credential) pki.Credential {                                        // without what the anchors hold
		c.Owner, c.Target, c.Signer = c.Owner[:1], c.Target[:1], c.Signer[:1]
		return c
	}
	slice := short(w.sliceCredential()).Signed(t)
	levels := w.handedOn(w.bob)
	delegated := pki.Delegated(t, short(levels[0]), short(levels[1]))
	speech := w.speaksFor()
	speech.Signer = speech.Signer[:1]
	spoken := shows(speech.Signed(t), slice).by(w.tool)
	spoken.speakingFor = aliceURN
	last := strings.LastIndex(slice, "</X509Data>")
	surplus := slice[:last] + "<!-- surplus --><X509Certificate>" + base64.StdEncoding.EncodeToString(w.bob.Raw) + "</X509Certificate>" + slice[last:]
	for _, form := range []struct {
		name string
		scene
		from int // where changes begin
	}{
		{"slice", shows(slice), 0},
		{"delegated", shows(delegated).by(w.bob), 0},
		{"speaks-for", spoken, 0},
		{"slice with another certificate", shows(surplus), last},
	} {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			flipDocument(t, w, form.scene, form.from)
		})
	}
}

// flipDocument changes the first document of a scene.
func flipDocument(t *testing.T, w *world, s scene, from int) {
	doc := []byte(s.documents[0].Text)
	if s.caller == nil {
		s.caller = pki.Raw(w.alice)
	}
	z := credentials.New(pki.Anchors(w.sa), credentials.Config{})
	caller := z.Identify(s.caller, now)
	read := func(doc []byte) (string, error) {
		list := slices.Clone(s.documents)
		list[0].Text = string(doc)
		g, err := z.Authorize(caller, list, s.speakingFor, credentials.RightAllocate, now)
		if err != nil {
			return "", err
		}
		until, err := g.Over(w.slice.URN)
		if err != nil {
			return "", err
		}
		signed, err := dsig.Verify([]byte(strings.TrimSpace(list[0].Text)), dsig.Options{})
		if err != nil {
			return "", err
		}
		_, other := g.Over(w.other.URN)
		all := fmt.Sprint(g.Caller(), g.Speaker(), until, other == nil)
		for _, one := range signed {
			all += one.Signer.Fingerprint() + string(one.Canonical)
		}
		return all, nil
	}
	want, err := read(doc)
	if err != nil {
		t.Fatal(err)
	}
	accepted := map[string]int{}
	for i := from; i < len(doc); i++ {
		for _, bit := range []byte{0x01, 0x20} {
			changed := bytes.Clone(doc)
			changed[i] ^= bit
			got, err := read(changed)
			if err != nil {
				continue
			}
			place := placeOf(doc, i)
			if place == "" || got != want {
				t.Errorf("byte %d of %d, %q, changed by %#x: accepted", i, len(doc), doc[max(0, i-20):i+1], bit)
			}
			accepted[place]++
		}
	}
	t.Logf("%d changes; accepted where nothing is read:", 2*(len(doc)-from))
	for _, place := range slices.Sorted(maps.Keys(accepted)) {
		t.Logf("%6d %s", accepted[place], place)
	}
}

// placeOf is the harmless place in which byte i lies, empty where there is none.
func placeOf(doc []byte, i int) string {
	for _, p := range harmless {
		from := bytes.Index(doc, []byte(p.from))
		if from < 0 || i < from {
			continue
		}
		if i < from+bytes.Index(doc[from:], []byte(p.to)) {
			return p.name
		}
	}
	return ""
}
