package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"patchbay/am"
)

// A stored value is its revision in eight bytes, then JSON. A document's text
// follows its JSON after a zero byte, as received.

func encode(rev Rev, value any) ([]byte, error) {
	b := binary.BigEndian.AppendUint64(nil, uint64(rev))
	d, isDocument := value.(am.Document)
	if isDocument {
		value = am.Document{ID: d.ID, Slice: d.Slice, Received: d.Received}
	}
	j, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	b = append(b, j...)
	if isDocument {
		b = append(append(b, 0), d.Text...)
	}
	return b, nil
}

// decode reads a stored value into v and gives its revision. Nothing of b is
// kept.
func decode(b []byte, v any) (Rev, error) {
	if len(b) < 8 {
		return 0, fmt.Errorf("a stored record of %d bytes is too short", len(b))
	}
	rev, b := Rev(binary.BigEndian.Uint64(b)), b[8:]
	d, isDocument := v.(*am.Document)
	var text []byte
	if isDocument {
		var found bool
		if b, text, found = bytes.Cut(b, []byte{0}); !found {
			return 0, fmt.Errorf("a stored document has no text")
		}
	}
	if err := json.Unmarshal(b, v); err != nil {
		return 0, fmt.Errorf("cannot read a stored record: %w", err)
	}
	if isDocument {
		d.Text = bytes.Clone(text)
	}
	return rev, nil
}

func sliceIndexKey(slice, sliver string) []byte {
	return append(append([]byte(slice), 0), sliver...)
}

// expiryKey orders by time, then sliver. Times that nanoseconds since 1970
// cannot tell are the first or the last of all.
func expiryKey(t time.Time, sliver string) []byte {
	n := max(0, t.UnixNano())
	switch {
	case t.Year() < 1970:
		n = 0
	case t.Year() > 2261:
		n = math.MaxInt64
	}
	return append(binary.BigEndian.AppendUint64(nil, uint64(n)), sliver...)
}

// mayExpire tells whether a lease is running on the sliver.
func mayExpire(s *am.Sliver) bool {
	return s.Status.Allocation != am.Unallocated && !s.Frozen
}
