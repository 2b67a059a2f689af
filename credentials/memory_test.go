package credentials

import (
	"testing"

	"patchbay/credentials/cert"
)

func TestEqualAnchorsKeepTheCache(t *testing.T) {
	z := New(cert.NewAnchors(), Config{})
	before := z.trust.Load()
	if z.SetAnchors(cert.NewAnchors()); z.trust.Load() != before {
		t.Error("the cache is empty, although the anchors are the same")
	}
}
