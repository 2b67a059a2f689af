package step

import (
	"reflect"
	"strings"
)

// Kinds of Step.
const (
	Install  = "install"  // fetch a file, and unpack it if it is an archive
	Execute  = "execute"  // run a command or a script
	UserData = "userdata" // pass data to cloud-init
	Disk     = "disk"     // make a file system on a disk of its own, and mount it
)

// Operations of Step. The zero value is done once, after the node was first switched on.
const (
	Start     = "start"     // each time that geni_start switches the node on
	Stop      = "stop"      // before geni_stop switches the node off
	Uninstall = "uninstall" // before Delete removes the node
)

// Step is one thing to do on a node. Its JSON form is an item of the providers' attribute "setup".
type Step struct {
	Kind string `json:"kind"`
	// Name is the experimenter's name of the step; empty if it has none.
	Name string `json:"step,omitempty"`
	// Stage is the number of the step's stage. Stage 0 begins with the node; each later stage
	// begins when the one before it has ended on all nodes.
	Stage int `json:"stage,omitempty"`
	// Operation is the event in the life of the node at which the step is done.
	Operation string `json:"operation,omitempty"`

	// URL is the address that an Install fetches: http, https, data or CatalogueScheme. UserData has a data URL. A
	// Disk has the name or URL of the disk image that it is a copy of; empty for an empty disk.
	URL string `json:"url,omitempty"`
	// InstallPath is the target folder of an Install and the mount point of a Disk: absolute, or
	// it begins with ~, the home of the first account.
	InstallPath string `json:"install_path,omitempty"`
	// FileType is the type of archive as written; mostly empty.
	FileType string `json:"file_type,omitempty"`
	// Archive is set if an Install keeps the numeric owners of the archive.
	Archive *Archive `json:"archive,omitempty"`

	// Shell is sh or bash. It is empty if Script starts with a line that names its interpreter.
	Shell string `json:"shell,omitempty"`
	// Command is the input of Shell, unless Script is set.
	Command string `json:"command,omitempty"`
	// Script is the path of the one of Files that an Execute runs, in an empty folder that has
	// only Files and is the working directory.
	Script string `json:"script,omitempty"`
	Files  []File `json:"files,omitempty"`
	// Environment has the variables of an Execute besides HOME, USER and so on.
	Environment map[string]string `json:"environment,omitempty"`
	// AsUser makes an Execute run as the first account instead of root.
	AsUser bool `json:"as_user,omitempty"`
	// Background states whether the stage of an Execute may end while it still runs. If it is
	// nil, it may in stage 0 only, after half a minute.
	Background *bool `json:"background,omitempty"`

	// Again makes the step run again when the nodes of the request change. Run counts how often it
	// must run again.
	Again bool `json:"again,omitempty"`
	Run   int  `json:"run,omitempty"`

	// Size of a Disk in MiB, and its type of file system, such as ext4.
	Size       int64  `json:"size,omitempty"`
	FileSystem string `json:"fstype,omitempty"`
}

// Archive describes the accounts and folders that an archive needs.
type Archive struct {
	// Users and Groups are created, with these numbers if they are free. If a number is taken by
	// another name, the name gets another number, and the content is renumbered.
	Users  []Account `json:"users,omitempty"`
	Groups []Account `json:"groups,omitempty"`
	// Folders are InstallPath and folders above it whose owners and modes are given.
	Folders []Folder `json:"folders,omitempty"`
}

// Account is a user or a group.
type Account struct {
	Name string `json:"name"`
	ID   uint32 `json:"id"`
}

// Folder is the owner and the mode of a folder. User and Group are the numbers that the archive
// uses, before any renumbering.
type Folder struct {
	Path  string `json:"path"`
	User  uint32 `json:"user"`
	Group uint32 `json:"group"`
	Mode  string `json:"mode"` // octal, such as 0755
}

// File is a file that an Execute needs.
type File struct {
	URL string `json:"url"` // http, https, data or CatalogueScheme
	// Path is relative, without "..".
	Path string `json:"path"`
}

// InPlan reports whether the step belongs to the plan: it is done when the node is first switched
// on, and the node's stages wait for it.
func (s *Step) InPlan() bool { return s.Operation != Stop && s.Operation != Uninstall }

// MustEnd reports whether the step's stage lasts until the step has ended.
func (s *Step) MustEnd() bool {
	if s.Background != nil {
		return !*s.Background
	}
	return s.Stage > 0 || s.Kind != Execute
}

// IsPlain reports whether every provider that carries out install and execute services can carry
// out the step. Other steps need a provider with the attribute "setup_stage".
func (s *Step) IsPlain() bool {
	plain := Step{Kind: s.Kind, Name: s.Name, URL: s.URL, InstallPath: s.InstallPath, FileType: s.FileType, Shell: s.Shell, Command: s.Command}
	return (s.Kind == Install || s.Kind == Execute) && !s.usesCatalogue() && reflect.DeepEqual(plain, *s)
}

// maxSummary is the maximum length of a step's summary, in bytes.
const maxSummary = 80

// Summary returns the step's name, its URL, or the first line of its command, shortened to
// maxSummary bytes.
func (s *Step) Summary() string {
	text := s.URL
	switch {
	case s.Name != "":
		text = s.Name
	case s.Kind == UserData:
		text = "user data for cloud-init"
	case s.Kind == Disk:
		text = s.InstallPath
	case s.Script == playScript:
		text = "playbook"
	case s.Script != "":
		text = s.Script
	case s.Kind == Execute:
		text = strings.TrimSpace(s.Command)
	}
	line, _, more := strings.Cut(text, "\n")
	if len(line) > maxSummary {
		line, more = strings.ToValidUTF8(line[:maxSummary], ""), true
	}
	if line = strings.TrimSpace(line); more {
		line += "…"
	}
	return line
}
