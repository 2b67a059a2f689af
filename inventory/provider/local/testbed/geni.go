package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider/local/egress"
	"patchbay/inventory/provider/local/hostalloc"
)

// maxGeniClients bounds the processes of a node that call geni-get at once.
const maxGeniClients = 8

// The work for geni-get is not charged to the node, so requests of a node beyond this rate wait.
const (
	geniPause = 50 * time.Millisecond // from one request to the next
	geniBurst = 40                    // requests without a pause
)

type geniRate struct {
	due time.Time // of the next request, if all came with pauses
}

// wait counts a request, and returns how long it must wait.
func (r *geniRate) wait(now time.Time) time.Duration {
	if first := now.Add(-geniBurst * geniPause); r.due.Before(first) {
		r.due = first
	}
	r.due = r.due.Add(geniPause)
	return max(0, r.due.Sub(now))
}

// geniVersion is the output of geni-get version.
const geniVersion = "1"

var geniCommands = map[string]string{
	"client_id":    "the name of this node in your request",
	"commands":     "this list",
	"control_mac":  "hardware address of eth0, which leads to the outside network",
	"geni_user":    "accounts of this node with their keys, JSON",
	"key":          "private key of the experiment, for logins from node to node",
	"manifest":     "the manifest of your slice",
	"slice_email":  "an e-mail address for the slice",
	"slice_urn":    "URN of your slice",
	"sliver_urn":   "URN of this node's sliver",
	"sliverstatus": "state of this node",
	"status":       "state of this node",
	"usage":        "limits and use of processors, memory, processes and disk, JSON",
	"user_email":   "an e-mail address of the first account's owner",
	"user_urn":     "URN of the first account's owner",
	"version":      "version of these commands",
}

// serveGeni answers geni-get in the node until the listener is closed. It limits the clients at a time and
// their rate.
func (nc *nodeController) serveGeni(listener net.Listener) {
	slots, rate := make(chan struct{}, maxGeniClients), geniRate{}
	for {
		slots <- struct{}{}
		c, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) || nc.t.ctx.Err() != nil {
			return
		}
		if err != nil {
			sleep(nc.t.ctx, 100*time.Millisecond)
			<-slots
			continue
		}
		sleep(nc.t.ctx, rate.wait(time.Now()))
		nc.t.work.Go(func() {
			defer func() { <-slots }()
			release := func() {}
			defer func() { release() }()
			err := agent.ServeGeni(c, func(words []string, uid int) ([]byte, error) {
				command := geniCommand(words)
				answer := func() (string, error) { return nc.geniAnswer(command, command == "key" && nc.isExperimentUser(uid)) }
				var text string
				var err error
				if command == "manifest" || command == "all" {
					text, release, err = nc.sendManifest(answer)
				} else {
					text, err = answer()
				}
				return []byte(text), err
			})
			if err != nil {
				nc.t.log.Debug("geni-get was not answered", "node", nc.id, "error", err)
			}
		})
	}
}

// geniCommand returns the command in the arguments of geni-get: the last word that is no
// option. Some options that scripts use stand for a command; other options are ignored.
func geniCommand(words []string) string {
	command := ""
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "-a", "--all":
			command = "all"
		case "-h", "--help":
			command = "commands"
		case "-c", "--client-version":
			command = "version"
		case "-n", "--no-cache":
		case "-p", "--port":
			i++
		default:
			command = words[i]
		}
	}
	return command
}

// isExperimentUser reports whether the user is root or has a login of the node. Services may have
// ids of the same range. The parameter uid is the user's id on the host, which a user namespace
// inside the node does not change.
func (nc *nodeController) isExperimentUser(uid int) bool {
	rec := nc.snapshot()
	base := int(rec.Base)
	if uid < base || uid-base >= hostalloc.Size {
		return false
	}
	inside := uid - base
	if inside == 0 {
		return true
	}
	users, err := parseUsers(rec.Desired.Users)
	ids := nc.currentStatus().userIDs
	return err == nil && slices.ContainsFunc(users, func(u user) bool {
		id, ok := ids[u.Login]
		return ok && int64(id) == int64(inside)
	})
}

// geniAnswer returns the answer to a command of geni-get. isUser is true for root and the accounts of the
// experiment, who may read its key. The error is for experimenters.
func (nc *nodeController) geniAnswer(command string, isUser bool) (string, error) {
	rec := nc.snapshot()
	users, err := parseUsers(rec.Desired.Users)
	if err != nil {
		return "", err
	}
	switch command {
	case "client_id":
		return orUnknown(rec.Desired.ClientID, "the client_id of this node")
	case "slice_urn":
		return orUnknown(rec.Desired.SliceURN, "the slice of this node")
	case "sliver_urn":
		return orUnknown(rec.Desired.SliverURN, "the sliver of this node")
	case "user_urn":
		for _, u := range users {
			if u.URN != "" {
				return u.URN, nil
			}
		}
		return "", errors.New("no account of this node has a URN")
	case "slice_email", "user_email":
		return "", errors.New("the aggregate does not know e-mail addresses")
	case "control_mac":
		if nc.t.egress == nil || rec.EgressNumber == 0 {
			return "", errors.New("this node has no control interface: nodes of this site have no outside network")
		}
		return egress.MAC(rec.EgressNumber).String(), nil
	case "geni_user":
		return asJSON(geniUsers(users))
	case "status", "sliverstatus":
		nc.mu.Lock()
		defer nc.mu.Unlock()
		return asJSON(object{"urn": rec.Desired.SliverURN, "state": nc.state, "message": nc.statusMessage()})
	case "usage":
		return nc.usageJSON(rec)
	case "version":
		return geniVersion, nil
	case "key":
		if !isUser {
			return "", errors.New("only root and the accounts of the experiment may read its key")
		}
		if nc.slice == nil {
			return "", errors.New("this node belongs to no slice, so there is no key")
		}
		key, err := nc.slice.experimentKey()
		return key.private, err
	case "manifest":
		return nc.fetchManifest()
	case "commands", "":
		var list strings.Builder
		for _, name := range slices.Sorted(maps.Keys(geniCommands)) {
			fmt.Fprintf(&list, "%-14s%s\n", name, geniCommands[name])
		}
		return list.String(), nil
	case "all":
		return nc.geniAll()
	}
	return "", fmt.Errorf("there is no command %.40q; the commands are %s", command, strings.Join(slices.Sorted(maps.Keys(geniCommands)), ", "))
}

func (nc *nodeController) usageJSON(rec record) (string, error) {
	now, err := nc.t.runtime.Usage(nc.id)
	if err != nil {
		return "", errors.New("the testbed cannot read the usage; try again")
	}
	may := rec.Limits
	return asJSON(agent.Usage{
		CPUs: may.CPUs, Memory: may.Memory, MemoryUsed: now.Memory, MemoryFiles: now.Files, PIDs: may.PIDs, PIDsUsed: now.PIDs, Disk: may.Disk,
	})
}

// geniAll returns the answers to all commands in one JSON object. It leaves out key and commands, and
// commands that fail.
func (nc *nodeController) geniAll() (string, error) {
	all := object{}
	for name := range geniCommands {
		if name == "key" || name == "commands" {
			continue
		}
		text, err := nc.geniAnswer(name, false)
		if err != nil {
			continue
		}
		if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
			all[name] = json.RawMessage(text)
		} else {
			all[name] = text
		}
	}
	return asJSON(all)
}

// orUnknown fails if text is empty.
func orUnknown(text, subject string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("the aggregate does not know %s", subject)
	}
	return text, nil
}

// geniUsers uses the JSON names that scripts expect.
func geniUsers(users []user) []object {
	all := []object{}
	for _, u := range users {
		keys := []object{}
		for _, k := range u.Keys {
			keys = append(keys, object{"type": "ssh", "key": k})
		}
		all = append(all, object{"urn": u.URN, "login": u.Login, "keys": keys})
	}
	return all
}

func asJSON(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // scripts search for the tags of the manifest
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.String(), err
}
