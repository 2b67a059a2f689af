package lxd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/inventory/node/inside"
	"patchbay/inventory/provider"
)

// Finding is the result of one check.
type Finding struct {
	Name, Message string
	// Bad means that nodes cannot be made, or not as the guide describes.
	Bad bool
	// Remedy says what to do. A finding without one is good.
	Remedy string
}

// Doctor checks the settings and the cluster, then makes a node on each member with a link between
// them all, and removes these nodes again. It reports each finding, and returns an error if one is
// bad.
func Doctor(ctx context.Context, dir, name string, report func(Finding)) error {
	p, err := open(dir, name)
	if err != nil {
		return err
	}
	bad := 0
	d := &doctor{program: p, report: func(f Finding) {
		if f.Bad {
			bad++
		}
		report(f)
	}}
	members, ok := d.examineCluster(ctx)
	if ok && bad == 0 {
		d.tryNodes(ctx, members)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if bad > 0 {
		return errors.New("nodes cannot run in this cluster until that is fixed; then run doctor again")
	}
	return nil
}

type doctor struct {
	*program
	report func(Finding)
}

func (d *doctor) ok(name, format string, args ...any) {
	d.report(Finding{Name: name, Message: fmt.Sprintf(format, args...)})
}

func (d *doctor) note(name, message, format string, args ...any) {
	d.report(Finding{Name: name, Message: message, Remedy: fmt.Sprintf(format, args...)})
}

func (d *doctor) bad(name, message, format string, args ...any) {
	d.report(Finding{Name: name, Message: message, Bad: true, Remedy: fmt.Sprintf(format, args...)})
}

// extensions are the parts of the API that the provider needs.
var extensions = []string{"projects", "projects_restrictions", "instance_nic_network", "instance_nic_bridged_port_isolation", "network_acl", "resources_v2", "clustering_evacuation"}

// examineCluster checks the settings, the API and the members, and returns the members that are online. ok is false if
// the cluster does not answer.
func (d *doctor) examineCluster(ctx context.Context) (online []member, ok bool) {
	c := d.client
	if info, err := os.Stat(filepath.Join(d.folder.dir, d.PrivateKey)); err == nil && info.Mode().Perm()&0o077 != 0 {
		d.bad("key", fmt.Sprintf("other users can read %s", d.PrivateKey), "run: chmod 600 %s", filepath.Join(d.folder.dir, d.PrivateKey))
	}
	if lacks := provider.MissingMetadata(d.folder.beside(".yaml"), metadataText); lacks != "" {
		d.note("settings", d.folder.name+".yaml", "%s; then restart Patchbay", lacks)
	}
	s, err := c.server(ctx)
	if err != nil {
		d.bad("api", err.Error(), "check remote in %s.yaml, and that the server listens: lxc config get core.https_address", d.folder.name)
		return nil, false
	}
	if s.Auth != "trusted" {
		d.bad("api", "the server does not trust "+d.Certificate, "run patchbay-lxd setup on a member")
		return nil, false
	}
	missing := slices.DeleteFunc(slices.Clone(extensions), func(e string) bool { return slices.Contains(s.APIExtensions, e) })
	if len(missing) > 0 {
		d.bad("api", "the server lacks the API extensions "+strings.Join(missing, ", "), "upgrade it to LXD 5.0 or Incus")
	} else {
		d.ok("api", "%s %s answers at %s", s.Environment.Server, s.Environment.Version, strings.Join(d.Remotes, ", "))
	}
	d.examineTrust(ctx)
	members, clustered, err := c.members(ctx)
	if err != nil {
		d.bad("members", err.Error(), "run: lxc cluster list")
		return nil, false
	}
	for _, m := range members {
		if m.isOnline() {
			online = append(online, m)
		} else if strings.EqualFold(m.Status, "Evacuated") {
			d.bad("members", m.Name+" is evacuated", "restore it: lxc cluster restore %s", m.Name)
		} else {
			d.bad("members", fmt.Sprintf("%s is %s: %s", m.Name, m.Status, m.Message),
				"look at the daemon of %s: systemctl status lxd; if it runs, the hosts are overloaded, or their network loses packets, or their clocks differ", m.Name)
		}
	}
	if len(online) == len(members) {
		d.ok("members", "%d of %d are online", len(online), len(members))
	}
	if clustered && len(d.Remotes) < min(len(members), 2) {
		d.note("members", "remote names one member only", "add the URL of another one, so that nodes can be reached while the first is down")
	}
	d.examineObjects(ctx)
	return online, true
}

// examineTrust checks that the certificate is for this project only.
func (d *doctor) examineTrust(ctx context.Context) {
	for _, project := range []string{"default", d.Project} {
		var list []string
		err := d.client.get(ctx, "instances", url.Values{"project": {project}}, &list)
		switch {
		case project == d.Project && err != nil:
			d.bad("project", err.Error(), "run patchbay-lxd setup on a member")
		case project != d.Project && err == nil:
			d.bad("trust", d.Certificate+" opens other projects, too", "restrict it: lxc config trust list; lxc config trust edit FINGERPRINT")
		case project != d.Project && (isStatus(err, http.StatusForbidden) || strings.Contains(err.Error(), "permission")): // Incus: 500
			d.ok("trust", "%s opens the project %s only", d.Certificate, d.Project)
		}
	}
	var project struct {
		Config map[string]string `json:"config"`
	}
	if err := d.client.get(ctx, "projects/"+d.Project, nil, &project); err == nil && project.Config["restricted"] != "true" {
		d.bad("project", "the project "+d.Project+" is not restricted", "run: lxc project set %s restricted true", d.Project)
	}
}

// examineObjects checks what the settings name.
func (d *doctor) examineObjects(ctx context.Context) {
	c := d.client
	var pool struct{ Driver string }
	switch err := c.get(ctx, "storage-pools/"+d.Pool, nil, &pool); {
	case err != nil:
		d.bad("pool", err.Error(), "make it (lxc storage create), or name another pool in %s.yaml", d.folder.name)
	case pool.Driver == "dir":
		d.note("pool", d.Pool+" is a folder", "it copies each image, and most file systems do not limit disks; use btrfs, zfs or lvm")
	default:
		d.ok("pool", "%s (%s)", d.Pool, pool.Driver)
	}
	if network, err := c.network(ctx, d.Network); err != nil {
		d.bad("network", err.Error(), "make it (lxc network create), or name another network in %s.yaml", d.folder.name)
	} else {
		d.ok("network", "%s (%s)", d.Network, network.Type)
	}
	for _, m := range d.Images {
		path := "images/aliases/" + url.PathEscape(m.Alias)
		if m.Alias == "" {
			path = "images/" + url.PathEscape(m.Fingerprint)
		}
		var image struct{}
		if err := c.get(ctx, path, nil, &image); err != nil {
			d.bad("images", fmt.Sprintf("the image %s: %v", m.Name, err), "import it, as patchbay guide cluster shows, or name another one in %s.yaml", d.folder.name)
		}
	}
	d.examineLinks(ctx)
	d.examineInstances(ctx)
}

func (d *doctor) examineLinks(ctx context.Context) {
	bridges, err := d.client.bridges(ctx)
	used := 0
	for _, b := range bridges {
		if len(b.UsedBy) > 0 {
			used++
		}
	}
	if err != nil || len(bridges) == 0 {
		d.bad("links", "there are no bridges for links", "run patchbay-lxd setup on a member")
	} else {
		d.ok("links", "%d of %d bridges are in use", used, len(bridges))
	}
}

// examineInstances reports what is in the project and was not made by a provider.
func (d *doctor) examineInstances(ctx context.Context) {
	all, err := d.client.instances(ctx)
	if err != nil {
		d.bad("instances", err.Error(), "run: lxc list --project %s", d.Project)
	}
	var foreign []string
	for i := range all {
		if all[i].node() == nil && !all[i].isTemplate() {
			foreign = append(foreign, all[i].Name)
		}
	}
	if len(foreign) > 0 {
		d.note("instances", fmt.Sprintf("%d instances of the project are not nodes: %s", len(foreign), oneLine(strings.Join(foreign, ", "))), "they are left alone; move them to another project")
	}
}

// trialTime bounds the time until the trial nodes are ready, or gone.
const trialTime = 10 * time.Minute

// trialID is the name of the trial node on a member. It is always the same, so that the next run
// removes nodes that were left.
func trialID(member string) string {
	h := fmt.Sprintf("%x", sha256.Sum256([]byte("doctor "+member)))
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]
}

// trials are the nodes that doctor makes, one on each member.
type trials struct {
	names        []string
	create, drop []update
}

func trialsOn(members []member) (t trials) {
	for k, m := range members {
		id := trialID(m.Name)
		item, _ := json.Marshal(map[string]any{"client_id": id, "link": "doctor", "slice": "doctor", "addresses": []string{trialAddress(k) + "/24"}})
		should, _ := json.Marshal(node{Ensure: provider.Present, Component: m.Name, Power: provider.On, Hostname: "doctor", Interfaces: []string{string(item)}})
		t.names = append(t.names, id)
		t.create = append(t.create, update{Name: id, Should: should})
		t.drop = append(t.drop, update{Name: id, Should: json.RawMessage(`{"ensure":"absent"}`)})
	}
	return t
}

// tryNodes makes a node on each member, examines them, and removes them.
func (d *doctor) tryNodes(ctx context.Context, members []member) {
	t := trialsOn(members)
	if !d.remove(ctx, t) { // of an earlier run
		return
	}
	defer func() { d.remove(context.WithoutCancel(ctx), t) }()
	nodes, err := d.create(ctx, t, members)
	if err != nil {
		d.bad("nodes", err.Error(), "%s has the details", d.folder.beside(".log"))
		return
	}
	var group sync.WaitGroup
	found := make([]inside.Examination, len(members))
	errs := make([]error, len(members))
	for k := range members {
		group.Go(func() { found[k], errs[k] = d.examineNode(ctx, t.names[k], members[k], len(members)) })
	}
	group.Wait()
	for k, m := range members {
		if errs[k] != nil {
			d.bad("nodes", fmt.Sprintf("the trial node on %s: %v", m.Name, errs[k]), "%s has the details", d.folder.beside(".log"))
			continue
		}
		d.reportMember(m, members, found[k])
		d.tryLogin(ctx, m, nodes[k])
	}
}

// create makes the trial nodes, and returns them when all are ready.
func (d *doctor) create(ctx context.Context, t trials, members []member) ([]object, error) {
	d.ok("nodes", "being made on %d members; the first one of each takes longer", len(members))
	begin := time.Now()
	answer, err := d.set(ctx, t.create, false)
	if err != nil {
		return nil, err
	}
	if refused := answer["changes"].([]object); len(refused) > 0 {
		text, _ := json.Marshal(refused[0])
		return nil, fmt.Errorf("a trial node is refused: %s", text)
	}
	nodes, err := d.await(ctx, t.names, func(r object) bool {
		return r["state"] == provider.StateReady || r["state"] == provider.StateFailed
	})
	if err != nil {
		return nil, err
	}
	var errs []error
	for k, m := range members {
		if nodes[k]["state"] != provider.StateReady {
			errs = append(errs, fmt.Errorf("the trial node on %s has failed: %v", m.Name, nodes[k]["message"]))
		}
	}
	if len(errs) == 0 {
		d.ok("nodes", "%d nodes with SSH were ready after %.1f s", len(nodes), time.Since(begin).Seconds())
	}
	return nodes, errors.Join(errs...)
}

// remove removes the trial nodes, and reports whether they are gone.
func (d *doctor) remove(ctx context.Context, t trials) bool {
	_, err := d.set(ctx, t.drop, false)
	if err == nil {
		_, err = d.await(ctx, t.names, func(r object) bool { return r[provider.AttrEnsure] == provider.Absent })
	}
	if err != nil {
		d.bad("nodes", "the trial nodes cannot be removed: "+err.Error(), "they are still being removed in the background; run doctor again later; %s has the details", d.folder.beside(".log"))
	}
	return err == nil
}

// trialAddress returns the address of trial node k on the link of the trial nodes.
func trialAddress(k int) string { return fmt.Sprintf("192.168.255.%d", k%254+1) }

// examineNode runs the program in a trial node, which examines its member and the way to the other trial nodes.
func (d *doctor) examineNode(ctx context.Context, id string, m member, members int) (e inside.Examination, err error) {
	i, err := d.client.instance(ctx, instanceName(id))
	if i == nil || err != nil {
		return e, cmp.Or(err, errors.New("it is gone"))
	}
	words := []string{"examine", "0", m.host()}
	for _, name := range i.facts().Bridges {
		if number, err := strconv.Atoi(strings.TrimPrefix(name, bridgePrefix)); err == nil && members > 1 {
			words[1] = strconv.Itoa(firstVXLAN + number)
		}
	}
	for k := range members {
		words = append(words, trialAddress(k))
	}
	err = d.client.exec(ctx, i.Name, command{words: words, limit: trialTime, output: decode(&e)})
	return e, err
}

// inotifyPerNode is the number of inotify instances that a node with systemd takes; a member needs
// minInotify.
const (
	inotifyPerNode = 8
	minInotify     = 1024
)

// reportMember reports what e, the examination of the trial node on the member m, says about the member.
func (d *doctor) reportMember(m member, members []member, e inside.Examination) {
	if e.Inotify < minInotify {
		d.bad("inotify", fmt.Sprintf("%s permits %d inotify instances, enough for about %d nodes", m.Name, e.Inotify, e.Inotify/inotifyPerNode),
			"run on %s: echo fs.inotify.max_user_instances=65536 >/etc/sysctl.d/60-patchbay.conf; sysctl --system", m.Name)
	} else {
		d.ok("inotify", "%s permits %d instances", m.Name, e.Inotify)
	}
	if e.AppArmor == "" || strings.HasPrefix(e.AppArmor, "unconfined") {
		d.note("apparmor", m.Name+" does not confine nodes with AppArmor", "install the package apparmor on %s, and restart the daemon", m.Name)
	} else {
		d.ok("apparmor", "%s confines nodes", m.Name)
	}
	switch {
	case e.FirstID == 0:
		d.bad("ids", "root of a node is root of "+m.Name, "give root a range in /etc/subuid and /etc/subgid of %s, and restart the daemon: root:1000000:1000000000", m.Name)
	case e.IDs < 65536:
		d.bad("ids", fmt.Sprintf("a node on %s has %d user ids", m.Name, e.IDs), "give root more in /etc/subuid and /etc/subgid of %s, and restart the daemon: root:1000000:1000000000", m.Name)
	default:
		d.ok("ids", "nodes on %s have user ids from %d", m.Name, e.FirstID)
	}
	for k, other := range members {
		if reason := e.Unreachable[trialAddress(k)]; reason != "" {
			d.bad("frames", fmt.Sprintf("a link does not get from %s to %s: %s", m.Name, other.Name, reason),
				"the members' network must carry multicast to 239.193.0.0/16 and UDP port 8472, with a route for multicast on each member; without it, links stay on one member")
		}
	}
	if len(e.Unreachable) == 0 {
		d.ok("frames", "a link gets from %s to all %d members", m.Name, len(members))
	}
	if e.Entered {
		d.bad("tunnels", fmt.Sprintf("a node on %s can send frames into the links of other slices, through UDP port %s of its member", m.Name, vxlanPort),
			"run patchbay-lxd setup on a member, and do what it says; if the network %s is not a bridge of the cluster, let the members' firewalls accept this port from members only", d.Network)
	} else {
		d.ok("tunnels", "a node on %s cannot send frames into the links of other slices", m.Name)
	}
	switch listed := slices.Contains(d.Netem, m.Name); {
	case e.Netem != "" && listed:
		d.bad("netem", m.Name+" cannot delay frames: "+e.Netem, "run on %s: modprobe sch_netem; echo sch_netem >/etc/modules-load.d/patchbay.conf; or remove it from netem in %s.yaml", m.Name, d.folder.name)
	case e.Netem != "":
		d.note("netem", m.Name+" cannot delay frames: "+e.Netem, "links with latency or packet loss are refused there; to have them, run on %s: modprobe sch_netem; echo sch_netem >/etc/modules-load.d/patchbay.conf; and run doctor again", m.Name)
	case listed:
		d.ok("netem", "%s can delay and lose frames", m.Name)
	default:
		d.note("netem", m.Name+" can delay and lose frames, but such links are refused", "add %s to netem in %s.yaml", m.Name, d.folder.name)
	}
}

// tryLogin connects to a node as experimenters do.
func (d *doctor) tryLogin(ctx context.Context, m member, r object) {
	logins, _ := r["login"].([]string)
	if len(logins) != 1 || r["proxy"] != nil {
		return
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	c, err := dialer.DialContext(ctx, "tcp", logins[0])
	if err != nil {
		d.bad("logins", fmt.Sprintf("the login of a node on %s cannot be reached from here: %v", m.Name, err), "open the ports in %s.yaml in the firewall of %s", d.folder.name, m.Name)
		return
	}
	c.Close()
	d.ok("logins", "a node on %s answers at %s", m.Name, logins[0])
}

// await calls get until ready is true for all nodes.
func (d *doctor) await(ctx context.Context, names []string, ready func(object) bool) ([]object, error) {
	for until := time.Now().Add(trialTime); ; pause(ctx, 200*time.Millisecond) {
		o, err := d.get(ctx, names)
		if err != nil {
			return nil, err
		}
		all := o["resources"].([]object)
		if !slices.ContainsFunc(all, func(r object) bool { return !ready(r) }) {
			return all, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if time.Now().After(until) {
			var late []string
			for _, r := range all {
				if !ready(r) {
					late = append(late, fmt.Sprintf("\n  on %v: %v", r["component"], r["message"]))
				}
			}
			return nil, fmt.Errorf("the trial nodes are not done after %s:%s", trialTime, strings.Join(late, ""))
		}
	}
}
