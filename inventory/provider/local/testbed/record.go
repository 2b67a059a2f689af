package testbed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"patchbay/am/file"
	"patchbay/inventory/provider/local/node"
)

// record is the file nodes/ID/node.json. Each change is saved before it is carried out.
type record struct {
	Desired desired `json:"desired"`
	// Change counts the changes of the desired state. The controller reports a result only
	// for the current number.
	Change uint64 `json:"change"`
	// Set once, when the node was first requested.
	Limits  node.Limits `json:"limits"`
	HostKey string      `json:"host_key"`      // public keys, one per line
	Peer    netip.Addr  `json:"peer,omitzero"` // the node's address for the other nodes of its slice
	// Disks are the disks of the node's setup.
	Disks []node.Disk `json:"disks,omitempty"`
	// Steps is the number of steps of the node's setup, with those that it does not have any more.
	Steps int `json:"steps,omitempty"`
	// Names has the interfaces' names in the node by client_id, once its interfaces have changed.
	Names map[string]string `json:"names,omitempty"`
	// Set once, by the controller.
	ImageKey string `json:"image_key,omitempty"`
	Base     uint32 `json:"base,omitempty"`
	// Port is replaced if another program has taken it.
	Port int `json:"port,omitempty"`
	// EgressNumber is the node's number in the outside network.
	EgressNumber int `json:"egress_number,omitempty"`
	// Restarted is the serial of the last restart that was done.
	Restarted string `json:"restarted"`
	// KeyLost is the last change that took access from users, until the slice's key is replaced.
	KeyLost uint64 `json:"key_lost,omitempty"`
	// Failed explains to experimenters why the node failed at the change FailedAt.
	Failed   string `json:"failed,omitempty"`
	FailedAt uint64 `json:"failed_at,omitempty"`
	incidents
}

// desired is the desired state of a node: its writable attributes.
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
	// SetupStage is canonical; empty, as in old records, means "0". For a node with steps, the
	// journal of the steps counts instead.
	SetupStage string `json:"setup_stage,omitempty"`
	// ChangeSerial is the last change of the interfaces and the setup.
	ChangeSerial string `json:"change_serial,omitempty"`
	// Interfaces are the items of the attribute "interfaces", without the keys that get adds.
	Interfaces []string `json:"interfaces,omitempty"`
}

// UnmarshalJSON also reads the names of fields that programs before schema 5 of the site's store wrote.
func (r *record) UnmarshalJSON(b []byte) error {
	type plain record
	older := struct {
		*plain
		Asked   *desired
		Outside int
	}{plain: (*plain)(r)}
	err := json.Unmarshal(b, &older)
	if older.Asked != nil {
		r.Desired = *older.Asked
	}
	r.EgressNumber = cmp.Or(r.EgressNumber, older.Outside)
	return err
}

// Files that this package keeps in a node's folder.
const (
	recordFile  = "node.json"
	hostKeyFile = "host_key"
)

// writeJSON writes a file that survives a crash of the host.
func writeJSON(dir, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return file.Write(filepath.Join(dir, name), append(b, '\n'), 0o600)
}

// readJSON decodes a file into v. It fails with fs.ErrNotExist if there is no file.
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

// folder creates a folder of State that only root can use.
func folder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
