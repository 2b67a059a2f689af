package check

import (
	"context"
	"slices"

	"patchbay/am/display"
	"patchbay/am/site"
	"patchbay/inventory"
	"patchbay/inventory/provider"
)

// companion checks the settings and the service of a provider. mistake is the error from opening
// it. companion returns false if the service cannot be used. Then a check of its provider would
// only repeat the error.
func (k *Checker) companion(ctx context.Context, c *site.Companion, inv *inventory.Inventory, mistake error) bool {
	if mistake != nil {
		k.Errors(mistake)
		return false
	}
	if !fileExists(c.File) {
		k.bad(c.File, "there is no such file, so the service of the provider would run with its defaults; restore it, or create an empty file if you want the defaults")
		return false
	}
	if lacks := provider.MissingMetadata(c.File, c.Metadata); lacks != "" {
		k.warn(c.File, "%s", lacks)
	}
	if err := c.Answers(ctx); err != nil {
		help := ""
		if c.Settings.Help != "" {
			help = "; " + c.Settings.Help
		}
		k.warn(c.File, "the service of the provider %s does not answer, so no node can be made (%v); serve starts it when it runs as root, else type: %s%s",
			c.Provider, err, display.AsRoot(c.Command...), help)
		return false
	}
	k.good(c.File, "the service of the provider %s runs", c.Provider)
	for _, name := range missingImages(c.Provider, inv, c.Settings.Images) {
		k.warn(c.File, "the inventory offers the image %s, which the provider %s does not have, so nodes with it will fail; add it to the provider, or remove it from the inventory", name, c.Provider)
	}
	return true
}

// missingImages returns the images that the inventory offers on components of a provider, but
// that it lacks. An empty existing means that the provider does not list its images; then
// missingImages returns none.
func missingImages(provider string, inv *inventory.Inventory, existing []string) (missing []string) {
	if inv == nil || len(existing) == 0 {
		return nil
	}
	for _, c := range inv.Components {
		for _, t := range c.SliverTypes {
			for _, i := range t.Images {
				if c.Provider == provider && !slices.Contains(existing, i.Name) && !slices.Contains(missing, i.Name) {
					missing = append(missing, i.Name)
				}
			}
		}
	}
	return missing
}

// compareSettings warns of differences between the inventory and a provider's settings, if a
// component uses the provider.
func (k *Checker) compareSettings(t *site.Companion, inv *inventory.Inventory, inventoryFile string) {
	if inv == nil || !slices.ContainsFunc(inv.Components, func(c *inventory.Component) bool { return c.Provider == t.Provider }) {
		return
	}
	inInventory := func(key, value string) string { return site.PlaceOf(inventoryFile, key, value) }
	inSettings := func(key, value string) string { return site.PlaceOf(t.File, key, value) }
	offered, actual := inv.OutsideAccess, inventory.No
	if t.Settings.Outbound != nil && *t.Settings.Outbound {
		actual = inventory.Yes
	}
	if t.Settings.Outbound != nil && offered != actual && offered != inventory.Unknown {
		k.warn(inInventory("outbound", ""), "outbound is %s, but %s says %s, and nodes of %s get the latter; write %s here, or %s there", offered, inSettings("outbound", ""), actual, t.Provider, actual, offered)
	}
	if most := maxNodes(t.Provider, inv); t.Settings.LoginPorts > 0 && most > int64(t.Settings.LoginPorts) {
		k.warn(inInventory("components", ""), "the components of %s have room for %d nodes, but ports at %s has %d ports for their logins, so nodes may be reserved that cannot be made; widen ports there, or lower the slots here",
			t.Provider, most, inSettings("ports", ""), t.Settings.LoginPorts)
	}
	for _, v := range inv.SharedVLANs {
		if !v.Restricted && !slices.Contains(t.Settings.SharedVLANs, v.Name) {
			k.warn(inInventory("shared_vlans", v.Name), "it offers the shared VLAN %s, which shared_vlans of %s does not name, so links of nodes of %s that join it are refused; add it there, or write restricted: true here",
				v.Name, inSettings("shared_vlans", ""), t.Provider)
		}
	}
	for _, name := range t.Settings.SharedVLANs {
		if _, ok := inv.SharedVLAN(name); !ok {
			k.warn(inSettings("shared_vlans", name), "it allows the shared VLAN %s, which shared_vlans of %s does not offer, so no request can use it; add it there with a tag, or remove it here",
				name, inInventory("shared_vlans", ""))
		}
	}
}

// maxNodes returns the number of a provider's nodes that can be reserved at one time. Only slots
// limit this number.
func maxNodes(provider string, inv *inventory.Inventory) (most int64) {
	for _, c := range inv.Components {
		if c.Provider != provider {
			continue
		}
		least := c.Capacity.Slots
		for _, t := range c.SliverTypes {
			least = min(least, t.Needs.Slots)
		}
		if least > 0 {
			most += c.Capacity.Slots / least
		}
	}
	return most
}
