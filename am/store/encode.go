package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"patchbay/am"
)

// A stored value is a revision of eight bytes, a checksum of four bytes, and JSON. The first
// byte of the revision says whether there is a checksum; values of schema 1 have none. A
// document's text follows its JSON after a zero byte, as received.

// checksumMark is the first byte of a value with a checksum. Without a checksum, the first byte
// belongs to the revision and is 0.
const checksumMark = 1

const sumSize = 4

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// encode returns the stored value of a record at the revision rev. A json.RawMessage is a record in JSON already.
func encode(rev Rev, value any) ([]byte, error) {
	b := make([]byte, 8+sumSize, 1024)
	d, isDocument := value.(am.Document)
	if isDocument {
		head := d
		head.Text = nil
		value = head
	}
	j, isEncoded := value.(json.RawMessage)
	if !isEncoded {
		var err error
		if j, err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	b = append(b, j...)
	if isDocument {
		b = append(append(b, 0), d.Text...)
	}
	stamp(b, rev)
	return b, nil
}

// stamp sets the revision of an encoded value.
func stamp(b []byte, rev Rev) {
	binary.BigEndian.PutUint64(b, uint64(rev))
	b[0] = checksumMark
	binary.BigEndian.PutUint32(b[8:], sumOf(b))
}

func sumOf(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], crcTable), crcTable, b[8+sumSize:])
}

// revisionOf returns 0 if the value is too short.
func revisionOf(b []byte) Rev {
	if len(b) < 8 {
		return 0
	}
	return Rev(binary.BigEndian.Uint64(b) &^ (0xff << 56))
}

// documentHead is a document without its text.
type documentHead am.Document

// decode returns the revision of the value. v shares no memory with b.
func decode(b []byte, v any) (Rev, error) {
	rev, text, err := unwrap(b)
	if err != nil {
		return 0, brokenError{err}
	}
	d, isDocument := v.(*am.Document)
	head, isHead := v.(*documentHead)
	var document []byte
	if isDocument || isHead {
		var found bool
		if text, document, found = bytes.Cut(text, []byte{0}); !found {
			return 0, brokenError{errors.New("a stored document has no text")}
		}
	}
	if err := json.Unmarshal(text, v); err != nil {
		err = fmt.Errorf("cannot read a stored record: %w", err)
		if b[0] != checksumMark { // a matching checksum shows that the record is not damaged
			err = brokenError{err}
		}
		return 0, err
	}
	if isDocument {
		d.Text = bytes.Clone(document)
	}
	if isHead && head.Bytes == 0 { // written by an earlier version
		head.Bytes, head.Elements = len(document), bytes.Count(document, []byte("<"))
	}
	return rev, nil
}

// unwrap returns the revision and the text of a stored value, and checks its checksum.
func unwrap(b []byte) (Rev, []byte, error) {
	switch {
	case len(b) < 8 || b[0] == checksumMark && len(b) < 8+sumSize:
		return 0, nil, fmt.Errorf("a stored record of %d bytes is too short", len(b))
	case b[0] == 0:
		return revisionOf(b), b[8:], nil
	case b[0] != checksumMark || binary.BigEndian.Uint32(b[8:]) != sumOf(b):
		return 0, nil, errors.New("a stored record is damaged: its checksum does not match")
	}
	return revisionOf(b), b[8+sumSize:], nil
}

func sliceIndexKey(slice, sliver string) []byte {
	return append(append([]byte(slice), 0), sliver...)
}

// expiryKey returns a key that sorts by time, then sliver. Times before 1970 sort first,
// and times after 2261 sort last.
func expiryKey(t time.Time, sliver string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, nanoseconds(t)), sliver...)
}

func readExpiryKey(k []byte) (at time.Time, sliver string, err error) {
	if len(k) < 8 {
		return at, "", brokenError{fmt.Errorf("%s %q: it is not a time; stop the server, and restore a backup", byExpiry, k)}
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(k))), string(k[8:]), nil
}

// startKey returns a key that sorts by start, then component, then sliver.
func startKey(start time.Time, component, sliver string) []byte {
	k := append(binary.BigEndian.AppendUint64(nil, nanoseconds(start)), component...)
	return append(append(k, 0), sliver...)
}

// readStartKey returns the sliver's key, and the key of its entry in the calendar.
func readStartKey(k []byte) (at time.Time, sliver string, calendar []byte, err error) {
	if len(k) >= 8 {
		if component, id, ok := bytes.Cut(k[8:], []byte{0}); ok {
			calendar = append(append(append(make([]byte, 0, len(k)), component...), 0), k[:8]...)
			return timeOf(binary.BigEndian.Uint64(k)), string(id), append(calendar, id...), nil
		}
	}
	return at, "", nil, brokenError{fmt.Errorf("%s %q: it is not a start; stop the server, and restore a backup", byStart, k)}
}

func mayExpire(s *am.Sliver) bool {
	return s.Status.Allocation != am.Unallocated && !s.Frozen
}
