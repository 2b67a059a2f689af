package lxd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
)

// getTime and setTime are shorter than the server's limits, so that it gets an error message.
const (
	getTime = 50 * time.Second
	setTime = 25 * time.Second
)

type object map[string]any

// program is one run of the provider, or its worker.
type program struct {
	settings
	folder folder
	client *client
	log    io.Writer

	statuses map[string]string // of members, if a node needs them
}

// open reads the settings of the provider called name in the folder dir.
func open(dir, name string) (*program, error) {
	if !isName(name) {
		return nil, fmt.Errorf("%q cannot be the name of a provider", name)
	}
	s, err := readSettings(filepath.Join(dir, name+".yaml"))
	if err != nil {
		return nil, err
	}
	c, err := newClient(s, dir)
	if err != nil {
		return nil, err
	}
	return &program{settings: s, folder: folder{dir, name}, client: c, log: os.Stderr}, nil
}

// Run handles one call of the provider called name, whose settings are in dir. argument is
// ral_action=ACTION. Run returns an error only if it cannot write an answer. Details of failures
// go to standard error.
func Run(dir, name, argument string, in io.Reader, out io.Writer) error {
	action, _ := strings.CutPrefix(argument, "ral_action=")
	if action == "describe" {
		_, err := io.WriteString(out, metadataText)
		return err
	}
	if action != "get" && action != "set" {
		return fmt.Errorf("the argument %q is not ral_action=describe, get or set", argument)
	}
	q, err := provider.ReadCall[json.RawMessage](in)
	if err != nil {
		return err
	}
	p, err := open(dir, name)
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		return provider.WriteAnswer(out, provider.Failure(errors.New("the cluster of this site is not set up; ask its operators to look into the log")))
	}
	limit := getTime
	if action == "set" {
		limit = setTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var o object
	if action == "get" {
		o, err = p.get(ctx, q.Names)
	} else {
		o, err = p.set(ctx, q.Updates, q.Ral.Noop)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		o = provider.Failure(errors.New("the cluster of this site does not answer; ask its operators to look into the log"))
	}
	return provider.WriteAnswer(out, o)
}

// get reports the nodes with these names, or all nodes. It starts the worker if there is work for it. With the site, it
// also drains members that are not online, and for all nodes it updates the facts.
func (p *program) get(ctx context.Context, names []string) (object, error) {
	p.drainLostMembers(ctx)
	if len(names) == 0 {
		if err := p.updateFacts(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "warn: the facts about images cannot be updated: %v\n", err)
		}
	}
	waiting, refreshing, err := p.waiting()
	if err != nil {
		return nil, err
	}
	all := len(names) == 0
	var found map[string]*instance
	// New nodes that the worker makes are not looked up, since the cluster takes long to describe an instance.
	if lookUp := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return waiting[name] != nil && waiting[name].New }); all || len(lookUp) > 0 {
		if found, err = p.find(ctx, lookUp); err == nil {
			err = p.findStatuses(ctx, found)
		}
		if err != nil {
			return nil, err
		}
	}
	if all {
		names = slices.Collect(maps.Keys(waiting))
		for name := range found {
			if waiting[name] == nil {
				names = append(names, name)
			}
		}
	}
	resources, hasWork := []object{}, refreshing
	for _, name := range names {
		wanted := waiting[name]
		r := p.report(name, wanted, found[name])
		if all && r[provider.AttrEnsure] == provider.Absent {
			continue
		}
		resources = append(resources, r)
		hasWork = hasWork || wanted != nil && wanted.Failed == "" || found[name] != nil && found[name].hasOpenSteps()
	}
	if hasWork {
		p.startWorker()
	}
	return object{"resources": resources}, nil
}

// waiting returns the requests that the worker has not carried out, by the name of the node. A node whose
// request cannot be read has failed. The result refreshing means that the worker has other work.
func (p *program) waiting() (all map[string]*pending, refreshing bool, err error) {
	ids, err := p.folder.ids()
	if err != nil {
		return nil, false, err
	}
	all = map[string]*pending{}
	for _, id := range ids {
		wanted, err := p.folder.read(id)
		if err != nil {
			wanted = &pending{Node: node{Name: id}, Failed: oneLine(fmt.Sprintf("the file of its request cannot be read; delete the node, or ask the operators to restore the file: %v", err))}
		}
		if wanted != nil && wanted.Refresh {
			refreshing = true
		} else if wanted != nil {
			all[id] = wanted
		}
	}
	return all, refreshing, nil
}

// fewNames are asked for one by one; for more, all instances are listed.
const fewNames = 8

// find returns the instances of the named nodes, or at least these, by the name of the node; all if there are no names.
func (p *program) find(ctx context.Context, names []string) (map[string]*instance, error) {
	found := map[string]*instance{}
	if len(names) > 0 && len(names) <= fewNames {
		list, errs := make([]*instance, len(names)), make([]error, len(names))
		var group sync.WaitGroup
		for k, name := range names {
			if isID(name) {
				group.Go(func() { list[k], errs[k] = p.client.instance(ctx, instanceName(name)) })
			}
		}
		group.Wait()
		for k, i := range list {
			if i != nil && i.node() != nil {
				found[names[k]] = i
			}
		}
		if errors.Join(errs...) == nil {
			return found, nil
		}
		// The list has the instances of a member that does not answer, too.
	}
	all, err := p.client.instances(ctx)
	for k := range all {
		if n := all[k].node(); n != nil {
			found[n.Name] = &all[k]
		}
	}
	return found, err
}

// report describes a node as get does: as it is requested by wanted, or else as the instance i is. Both may be nil.
func (p *program) report(name string, wanted *pending, i *instance) object {
	if wanted == nil && i == nil {
		return object{provider.AttrName: name, provider.AttrEnsure: provider.Absent}
	}
	var n node
	var f facts
	if i != nil {
		n, f = *i.node(), i.facts()
	}
	if n.lost && (wanted == nil || wanted.Failed == "") {
		return object{
			provider.AttrName: name, provider.AttrEnsure: provider.Present, "component": n.Component,
			"state": provider.StateFailed, "message": lostError(n.Component).Error(),
		}
	}
	if wanted != nil && wanted.Node.Ensure == provider.Present {
		n = wanted.Node
	}
	if wanted != nil && i == nil {
		n = wanted.Node
	}
	r := object{
		provider.AttrName: name, provider.AttrEnsure: provider.Present, "component": n.Component, "power": cmp.Or(n.Power, provider.Off),
		"users": orEmpty(n.Users), "interfaces": orEmpty(n.reportedInterfaces()), "host_keys": orEmpty(f.HostKeys), "login": []string{}, "addresses": orEmpty(f.Addresses),
	}
	for key, value := range map[string]string{
		"restart_serial": n.RestartSerial, "reload_serial": n.ReloadSerial, "sliver_type": n.SliverType, "image": n.Image,
		"hostname": n.Hostname, "client_id": n.ClientID, "slice_urn": n.SliceURN, "sliver_urn": n.SliverURN,
		provider.AttrSetupStage: n.SetupStage, provider.AttrChangeSerial: n.ChangeSerial,
	} {
		if value != "" {
			r[key] = value
		}
	}
	if len(n.Setup) > 0 {
		j := journal(&n, i)
		r[provider.AttrServices] = j.Items(steprunner.MaxReport)
	}
	state, message := p.state(r, &n, wanted, i)
	if r["state"] = state; message != "" {
		r["message"] = message
	}
	return r
}

// state returns the state of a node that exists, and adds power and login to r.
func (p *program) state(r object, n *node, wanted *pending, i *instance) (state, message string) {
	switch {
	case wanted != nil && wanted.Failed != "":
		return provider.StateFailed, wanted.Failed
	case wanted != nil:
		return provider.StateChanging, cmp.Or(wanted.Progress, "waiting for the cluster")
	case i.Status == statusError:
		return provider.StateFailed, lostError(n.Component).Error()
	}
	f := i.facts()
	if i.Status == statusStopped {
		r["power"] = provider.Off
		if status := p.statuses[n.Component]; n.Power == provider.On && status != "" && status != memberOnline {
			return provider.StateFailed, fmt.Sprintf("the member %s of the cluster is %s; the node is back when the member is", n.Component, strings.ToLower(status))
		}
		return provider.StateReady, f.Problem
	}
	r["power"] = provider.On
	if n.Power == provider.On && f.Login != "" {
		r["login"] = []string{f.Login}
		if p.Gateway != "" && p.Logins == loginsNetwork {
			r["proxy"] = p.Gateway
		}
	}
	if i.hasOpenSteps() {
		j := journal(n, i)
		if mustWait, _ := j.Wait(executesTime); mustWait {
			return provider.StateChanging, j.Progress()
		}
	}
	return provider.StateReady, f.Problem
}

func lostError(member string) error {
	return fmt.Errorf("the member %s of the cluster does not answer; the node is back when the member is", member)
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// startWorker starts a worker, unless one runs. It logs a failure.
func (p *program) startWorker() {
	release, err := p.folder.claim()
	if err != nil {
		return
	}
	release()
	log, err := os.OpenFile(p.folder.beside(".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintf(p.log, "error: %v\n", err)
		return
	}
	defer log.Close()
	if stat, err := log.Stat(); err == nil && stat.Size() > maxLog {
		_ = log.Truncate(0)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	child, err := os.StartProcess("/proc/self/exe", []string{"patchbay-lxd", "work", "--name", p.folder.name}, &os.ProcAttr{
		Dir: p.folder.dir, Env: os.Environ(), Files: []*os.File{null, null, log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		fmt.Fprintf(p.log, "error: the worker cannot start: %v\n", err)
		return
	}
	_ = child.Release()
}

// maxLog bounds the log of the worker, in bytes; a longer one is begun anew.
const maxLog = 8 << 20
