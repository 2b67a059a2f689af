package testbed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/gateway"
	"patchbay/rspec/hostname"
)

const maxForeignEndpoints = 2000

// endpointPrefix begins the ids of endpoints. The prefix is an earlier name, which existing
// testbeds have stored, like the folder endpoints.
const endpointPrefix = "door-"

// foreignEndpointID returns an id that differs from all node ids, which are UUIDs.
func foreignEndpointID(providerName, name string) string {
	sum := sha256.Sum256([]byte(providerName + "\x00" + name))
	return endpointPrefix + hex.EncodeToString(sum[:16])
}

func (d *foreignEndpoint) endpointName() string {
	return endpointName(d.Hostname, strings.TrimPrefix(d.id, endpointPrefix))
}

// loadForeignEndpoints reads the saved endpoints of other providers' nodes. It removes damaged and
// temporary files.
func (t *Testbed) loadForeignEndpoints() error {
	entries, err := os.ReadDir(t.foreignDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			if err := os.Remove(filepath.Join(t.foreignDir, e.Name())); err != nil { // left by an interrupted write
				return err
			}
			continue
		}
		var d foreignEndpoint
		if err := readJSON(t.foreignDir, e.Name(), &d); err != nil {
			t.log.Error("the file of an endpoint is damaged; the endpoint is created again at its provider's next request", "error", err)
			if err := os.Remove(filepath.Join(t.foreignDir, e.Name())); err != nil {
				return err
			}
			continue
		}
		d.id, d.saved = foreignEndpointID(d.Provider, d.Name), d.record()
		t.foreignEndpoints[d.id] = &d
	}
	return nil
}

func (t *Testbed) openForeignEndpoints() {
	t.foreignMu.Lock()
	ids := slices.Collect(maps.Keys(t.foreignEndpoints))
	t.foreignMu.Unlock()
	for _, id := range ids {
		if t.ctx.Err() != nil {
			return
		}
		if err := t.openSavedEndpoint(id); err != nil {
			t.log.Error("cannot open the SSH endpoint of another provider's node", "door", id, "error", err)
		}
	}
}

func (t *Testbed) openSavedEndpoint(id string) error {
	t.foreignMu.Lock()
	defer t.foreignMu.Unlock()
	d := t.foreignEndpoints[id]
	if d == nil || d.open {
		return nil
	}
	return t.openForeignEndpoint(d)
}

// handleEndpoints removes, sets and reports endpoints of another provider's nodes, in this order. The answer
// has an entry for each endpoint that was set or reported, and for each that could not be removed.
func (t *Testbed) handleEndpoints(input json.RawMessage) (*local.EndpointsOutput, error) {
	var q local.EndpointsInput
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, fmt.Errorf("cannot decode the input of endpoints: %w", err)
	}
	if n := len(q.Set) + len(q.Remove) + len(q.Names); n > 3*maxNames {
		return nil, fmt.Errorf("the input of endpoints has %d names, at most %d are allowed", n, 3*maxNames)
	}
	if !isProviderName(q.Provider) {
		return nil, fmt.Errorf("%.40q cannot be the name of a provider", q.Provider)
	}
	t.foreignMu.Lock()
	defer t.foreignMu.Unlock()
	out := &local.EndpointsOutput{Endpoints: []local.EndpointStatus{}}
	for _, name := range q.Remove {
		if err := t.removeForeignEndpoint(foreignEndpointID(q.Provider, name)); err != nil {
			t.log.Error("cannot remove the SSH endpoint of another provider's node", "provider", q.Provider, "node", name, "error", err)
			out.Endpoints = append(out.Endpoints, local.EndpointStatus{Name: name, Error: "its endpoint at the gateway cannot be removed; the testbed's operators can see why in the log"})
		}
	}
	for _, request := range q.Set {
		status, err := t.setForeignEndpoint(q.Provider, request)
		if err != nil {
			status = local.EndpointStatus{Name: request.Name, Error: err.Error()}
		}
		out.Endpoints = append(out.Endpoints, status)
	}
	for _, name := range q.Names {
		if d := t.foreignEndpoints[foreignEndpointID(q.Provider, name)]; d != nil {
			out.Endpoints = append(out.Endpoints, t.endpointStatus(d))
		}
	}
	return out, nil
}

// isProviderName reports whether s can be the name of a provider: one line of 1 to 64
// bytes.
func isProviderName(s string) bool {
	return s != "" && len(s) <= 64 && isOneLine(s)
}

// setForeignEndpoint creates or changes an endpoint. The endpoint keeps its users or its address
// if the request has none. The error is for experimenters. t.foreignMu is held.
func (t *Testbed) setForeignEndpoint(providerName string, request local.EndpointRequest) (local.EndpointStatus, error) {
	if request.Name == "" || len(request.Name) > maxText || !isOneLine(request.Name) {
		return local.EndpointStatus{}, fmt.Errorf("%.40q cannot be the name of a node", request.Name)
	}
	id := foreignEndpointID(providerName, request.Name)
	old := t.foreignEndpoints[id]
	next := foreignEndpoint{Provider: providerName, Name: request.Name, Users: request.Users, id: id}
	if old != nil {
		next.Port, next.public, next.Hostname, next.saved = old.Port, old.public, old.Hostname, old.saved
		if request.Users == nil {
			next.Users = old.Users
		}
	} else if len(t.foreignEndpoints) >= maxForeignEndpoints {
		return local.EndpointStatus{}, fmt.Errorf("the maximum of %d logins for nodes of other providers is reached", maxForeignEndpoints)
	}
	if hostname.IsHost(request.Hostname) {
		next.Hostname = request.Hostname
	}
	_, err := parseUsers(next.Users)
	if err != nil {
		return local.EndpointStatus{}, err
	}
	if next.Address, err = t.checkTarget(request.Address); err != nil {
		return local.EndpointStatus{}, err
	}
	if next.Address == "" && old != nil {
		next.Address = old.Address
	}
	if old != nil && old.open && old.record() == next.record() {
		return t.endpointStatus(old), nil
	}
	err = t.openForeignEndpoint(&next)
	if next.saved != "" { // it was saved, so it may keep its port
		t.foreignEndpoints[id] = &next
	}
	if err != nil {
		t.log.Error("cannot open the SSH endpoint of another provider's node", "provider", providerName, "node", request.Name, "error", err)
		return local.EndpointStatus{}, errors.New("the gateway cannot accept logins for it; the testbed's operators can see why in the log")
	}
	return t.endpointStatus(&next), nil
}

// checkTarget checks that an endpoint may forward to address. It returns the normalized
// address, or "" if address is "".
func (t *Testbed) checkTarget(address string) (string, error) {
	if address == "" {
		return "", nil
	}
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || to.Port() == 0:
		return "", fmt.Errorf("the address of its SSH server, %.60q, is not an IP address with a port", address)
	case !t.settings.MayForward(to.Addr()) || len(t.settings.ForwardTo) == 0 && isHostAddress(to.Addr()):
		return "", fmt.Errorf("the gateway may not forward to %v; forward_to in the settings of the testbed lists the allowed networks", to.Addr())
	}
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()).String(), nil
}

// isHostAddress reports whether the address a belongs to this host. It returns true if the
// addresses of this host are unknown.
func isHostAddress(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // unknown, so refuse it
	}
	return slices.ContainsFunc(all, func(own net.Addr) bool {
		p, err := netip.ParsePrefix(own.String())
		return err == nil && p.Addr().Unmap() == a.Unmap()
	})
}

func (d *foreignEndpoint) record() string {
	b, _ := json.Marshal(d) // cannot fail: only texts and a number
	return string(b)
}

func (t *Testbed) saveForeignEndpoint(d *foreignEndpoint) error {
	text := d.record()
	if text == d.saved {
		return nil
	}
	if err := t.write(t.foreignDir, d.id+".json", d); err != nil {
		return err
	}
	d.saved = text
	return nil
}

// openForeignEndpoint opens a port for the endpoint, saves the endpoint and passes it to the gateway. d.open
// says whether that succeeded. An endpoint without a target address is only saved. After an error of the
// gateway, the endpoint stays saved, but closed.
func (t *Testbed) openForeignEndpoint(d *foreignEndpoint) error {
	users, err := parseUsers(d.Users)
	if err != nil {
		return err
	}
	if d.Address == "" {
		err := t.saveForeignEndpoint(d)
		d.open = err == nil
		return err
	}
	if _, err := t.checkTarget(d.Address); err != nil {
		return err // the settings no longer allow it
	}
	holder, was := t.settings.Instance+"/"+d.id, d.Port
	if d.public == nil && t.settings.Publish != local.Gateway {
		if d.public, d.Port, err = t.openPort(d.Port, holder); err != nil {
			d.Port = was
			return err
		}
	}
	if err := t.saveForeignEndpoint(d); err != nil {
		if d.Port != was {
			err = errors.Join(err, d.public.Close(), t.ports.Release(uint32(d.Port), holder))
			d.Port, d.public = was, nil
		}
		return err
	}
	err = t.gateway.SetEndpoint(gateway.Endpoint{
		Node: d.id, Slice: d.id, Names: []string{d.endpointName()}, Accounts: accountsOf(users), Address: d.Address,
	}, d.public, nil)
	if err != nil {
		// The gateway may have accepted the endpoint despite the error.
		err = errors.Join(err, t.gateway.RemoveEndpoint(d.id))
		if d.public != nil {
			d.public.Close()
			d.public = nil
		}
	}
	d.open = err == nil
	return err
}

// removeForeignEndpoint removes an endpoint from the gateway, then its file, and then releases its port. An
// unknown endpoint is no error. t.foreignMu is held.
func (t *Testbed) removeForeignEndpoint(id string) error {
	d := t.foreignEndpoints[id]
	if d == nil {
		return nil
	}
	if err := t.gateway.RemoveEndpoint(id); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(t.foreignDir, id+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if d.Port != 0 {
		if err := t.ports.Release(uint32(d.Port), t.settings.Instance+"/"+id); err != nil {
			return err
		}
	}
	delete(t.foreignEndpoints, id)
	return nil
}

// endpointStatus includes the login addresses only if users can log in.
func (t *Testbed) endpointStatus(d *foreignEndpoint) local.EndpointStatus {
	is := local.EndpointStatus{Name: d.Name, Address: d.Address, Users: d.Users}
	if d.Address == "" || !d.open {
		return is
	}
	is.Login, is.Proxy = t.published(d.endpointName(), d.Port)
	return is
}

func (t *Testbed) listForeignEndpoints() []local.ListedEndpoint {
	t.foreignMu.Lock()
	defer t.foreignMu.Unlock()
	all := []local.ListedEndpoint{}
	for _, d := range t.foreignEndpoints {
		is := t.endpointStatus(d)
		all = append(all, local.ListedEndpoint{Name: is.Name, Address: is.Address, Login: is.Login})
	}
	return all
}
