package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"patchbay/am/durable"
	"patchbay/inventory/local/node"
)

// record is the file nodes/ID/node.json. It is written before anything in it is
// done.
type record struct {
	Desired desired `json:"asked"`
	// Change counts what was asked; the node is as asked when the life is done
	// with this number.
	Change uint64 `json:"change"`
	// Settled once, when the node was first asked for.
	Limits  node.Limits `json:"limits"`
	HostKey string      `json:"host_key"` // the public ones, a line each
	Peer    netip.Addr  `json:"peer,omitzero"`
	// Steps counts those of its setup.
	Steps int `json:"steps,omitempty"`
	// Settled once by the life.
	ImageKey string `json:"image_key,omitempty"`
	Base     uint32 `json:"base,omitempty"`
	// Port is replaced by another one if another program has taken it.
	Port int `json:"port,omitempty"`
	// EgressNumber is its number at the exit.
	EgressNumber int `json:"outside,omitempty"`
	// Restarted is the restart that was done last.
	Restarted string `json:"restarted"`
	// Failed says in words for experimenters why the node cannot be as asked at
	// FailedAt, a Change.
	Failed   string `json:"failed,omitempty"`
	FailedAt uint64 `json:"failed_at,omitempty"`
	incidents
}

// desired are the attributes of a node that may be set.
type desired struct {
	Removing      bool     `json:"removing,omitempty"`
	Component     string   `json:"component"`
	SliverType    string   `json:"sliver_type,omitempty"`
	Image         string   `json:"image,omitempty"`
	Hostname      string   `json:"hostname,omitempty"`
	Power         string   `json:"power"`
	RestartSerial string   `json:"restart_serial,omitempty"`
	Users         []string `json:"users,omitempty"`
	ClientID      string   `json:"client_id,omitempty"`
	SliceURN      string   `json:"slice_urn,omitempty"`
	SliverURN     string   `json:"sliver_urn,omitempty"`
	// Interfaces are the items, without what we add when they are reported.
	Interfaces []string `json:"interfaces,omitempty"`
}

// Files of a node's folder that are ours.
const (
	recordFile  = "node.json"
	hostKeyFile = "host_key"
)

func writeJSON(dir, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, name), append(b, '\n'), 0o600)
}

// readJSON reads what writeJSON wrote. It fails with fs.ErrNotExist where there is
// no such file.
func readJSON(dir, name string, v any) error {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s cannot be read: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// folder makes a folder of State that is root's alone.
func folder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
