package lxd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"patchbay/am/service/maintenance"
	"patchbay/inventory/provider"
	"patchbay/schemas/yamlfile"
)

// membersTime is the time between two looks at the members.
const membersTime = 10 * time.Second

// drainLostMembers drains the components of members that are not online, in the site's maintenance
// file, and ends the drain when they are back. Patchbay calls get every 15 seconds, so this needs no
// process of its own. A failure is logged, and does not fail the call.
func (p *program) drainLostMembers(ctx context.Context) {
	site := filepath.Join(p.folder.dir, "..")
	if _, err := os.Stat(filepath.Join(site, "patchbay.yaml")); err != nil {
		return // no site, such as in a test of the provider alone
	}
	stamp := p.folder.beside(".members") // its modification time is that of the last look
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()).Abs() < membersTime {
		return
	}
	err := os.WriteFile(stamp, nil, 0o600)
	if err == nil {
		err = os.Chtimes(stamp, time.Time{}, time.Now())
	}
	if err == nil {
		err = p.drain(ctx, site)
	}
	if err != nil {
		fmt.Fprintf(p.log, "warn: members that are not online cannot be drained: %v\n", err)
	}
}

// drain drains the components of members that are not online, and undrains those that are back. It compares twice:
// first without the lock of the file, and again with it if something must change.
func (p *program) drain(ctx context.Context, site string) error {
	members, _, err := p.client.members(ctx)
	if err != nil {
		return err
	}
	file := filepath.Join(site, "maintenance.yaml")
	plan, err := maintenance.Read(file)
	if err != nil {
		return err
	}
	by := p.folder.name + ".prov"
	if lost, back := compareDrains(plan, members, by); len(lost)+len(back) == 0 {
		return nil
	}
	text, err := yamlfile.Load(filepath.Join(site, inventoryFile), maxInventory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	have, err := readComponents(text, p.folder.name)
	if err != nil {
		return err
	}
	_, err = maintenance.Change(file, func(d *maintenance.Draft) error {
		lost, back := compareDrains(d.Plan, members, by)
		for _, m := range lost {
			if have.has(m.Name) {
				d.AddDrain(maintenance.Drain{Components: []string{m.Name}, Text: fmt.Sprintf("the member is %+.50q", m.Status), Since: time.Now(), By: by})
			}
		}
		d.Undrain(back)
		return nil
	})
	return err
}

// compareDrains returns the members to drain, and the components whose drain ends.
func compareDrains(plan *maintenance.Plan, members []member, by string) (lost []member, back []string) {
	for _, m := range members {
		switch d := plan.Drain(m.Name); {
		case !m.isOnline() && d == nil:
			lost = append(lost, m)
		case m.isOnline() && d != nil && d.By == by:
			back = append(back, m.Name)
		}
	}
	return lost, back
}

// findStatuses sets p.statuses to the statuses of the members if a node is off that should be on.
func (p *program) findStatuses(ctx context.Context, found map[string]*instance) error {
	for _, i := range found {
		if n := i.node(); i.Status != statusStopped || n.Power != provider.On {
			continue
		}
		members, _, err := p.client.members(ctx)
		p.statuses = map[string]string{}
		for _, m := range members {
			p.statuses[m.Name] = m.Status
		}
		return err
	}
	return nil
}
