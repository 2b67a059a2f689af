package clock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// record is what the file holds: both clocks at one moment.
type record struct {
	Site   time.Time     `json:"site"`
	Host   time.Time     `json:"host"`
	Boot   string        `json:"boot"`
	Steady time.Duration `json:"steady_ns"`
	Doubt  Doubt         `json:"doubt,omitempty"`
	Since  time.Time     `json:"since,omitzero"`
	// Sum is that of all else, so that no damage counts as time.
	Sum string `json:"sum,omitempty"`
}

// latest is after any time of a site.
var latest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// encode gives what the file is to hold.
func (r record) encode() ([]byte, error) {
	var err error
	if r.Sum, err = r.sum(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(r.utc())
	return append(text, '\n'), err
}

var sums = crc32.MakeTable(crc32.Castagnoli)

// sum is that of what r says, however it was written.
func (r record) sum() (string, error) {
	r.Sum = ""
	text, err := json.Marshal(r.utc())
	return fmt.Sprintf("%08x", crc32.Checksum(text, sums)), err
}

func (r record) utc() record {
	r.Site, r.Host, r.Since = r.Site.UTC(), r.Host.UTC(), r.Since.UTC()
	return r
}

// parse reads what encode has written.
func parse(text []byte) (r record, err error) {
	if r, err = decode(text); err != nil {
		return r, err
	}
	sum, err := r.sum()
	if err != nil {
		return r, err
	}
	if r.Sum != sum {
		return r, errors.New("its sum is not that of what it says, so it was damaged, or changed by hand")
	}
	return r, r.check()
}

// decode reads a record, whatever it says.
func decode(text []byte) (r record, err error) {
	if len(text) > maxFile {
		return r, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("something follows its end")
	}
	r.Site, r.Host, r.Since = r.Site.Local(), r.Host.Local(), r.Since.Local()
	return r, nil
}

// check says what no clock has written.
func (r record) check() error {
	switch r.Doubt {
	case NoDoubt, Jumped, Behind, Settling:
	default:
		return fmt.Errorf("there is no doubt %q", r.Doubt)
	}
	switch {
	case r.Site.IsZero() || r.Site.After(latest):
		return fmt.Errorf("its time %s is none", r.Site.Format(time.RFC3339))
	case r.Doubt == NoDoubt && !r.Site.Equal(r.Host):
		return fmt.Errorf("it does not doubt the host's time %s, and has another, %s", r.Host.Format(time.RFC3339), r.Site.Format(time.RFC3339))
	case r.Steady < 0:
		return errors.New("it was before the boot")
	}
	return nil
}
