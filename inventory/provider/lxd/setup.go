package lxd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"patchbay/am/file"
)

// SetupOptions are what Setup makes.
type SetupOptions struct {
	// Dir is the folder of providers, and Name the name of the provider.
	Dir, Name string
	// Socket is the server's Unix socket; empty: the usual one.
	Socket string
	// Links is the number of bridges for links.
	Links int
	// Program is the path of patchbay-lxd in the script NAME.prov.
	Program string
	// Progress is called with each thing that was made.
	Progress func(format string, args ...any)
}

// sockets are the usual places of the server's Unix socket.
var sockets = []string{"/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket", "/var/lib/incus/unix.socket"}

// FindSocket returns the socket, or the first usual one that exists.
func FindSocket(socket string) (string, error) {
	if socket != "" {
		return socket, nil
	}
	if dir := cmp.Or(os.Getenv("LXD_DIR"), os.Getenv("INCUS_DIR")); dir != "" {
		return filepath.Join(dir, "unix.socket"), nil
	}
	for _, path := range sockets {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no LXD or Incus here: none of %s exists; run this on a member of the cluster, or name the socket with --socket", strings.Join(sockets, ", "))
}

// Setup prepares the cluster and the folder as root: the project, the bridges, the provider's certificate,
// an ACL of the nodes' network, NAME.yaml and NAME.prov. It changes nothing else that is there already. All
// members must be up.
func Setup(ctx context.Context, o SetupOptions) error {
	socket, err := FindSocket(o.Socket)
	if err != nil {
		return err
	}
	if !isName(o.Name) {
		return fmt.Errorf("%q cannot be the name of a provider", o.Name)
	}
	path := filepath.Join(o.Dir, o.Name+".yaml")
	s, err := readSettings(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh {
		s = defaultSettings()
	} else if err != nil {
		return err
	}
	c := newLocalClient(socket, "default")
	info, err := c.server(ctx)
	if err != nil {
		return fmt.Errorf("the server does not answer at %s: %w", socket, err)
	}
	if err := setUpProject(ctx, c, s, o); err != nil {
		return err
	}
	members, clustered, err := c.members(ctx)
	if err != nil {
		return err
	}
	if err := setUpBridges(ctx, c, members, clustered, o); err != nil {
		return err
	}
	if clustered {
		if err := keepNodesOffTunnels(ctx, c, s, members, o); err != nil {
			return err
		}
	}
	if err := setUpTrust(ctx, c, s, o); err != nil {
		return err
	}
	address, _ := info.Config["core.https_address"].(string)
	if address == "" {
		o.Progress("the server does not listen yet; run: lxc config set core.https_address [::]:8444")
	}
	if fresh {
		remotes := []string{"https://" + strings.NewReplacer("[::]", "127.0.0.1", "0.0.0.0", "127.0.0.1").Replace(cmp.Or(address, "127.0.0.1:8444"))}
		if clustered {
			remotes = nil
			for _, m := range members {
				remotes = append(remotes, m.URL)
			}
		}
		if err := writeSettings(path, remotes, o); err != nil {
			return err
		}
	}
	script := filepath.Join(o.Dir, o.Name+".prov")
	if _, err := os.Stat(script); errors.Is(err, fs.ErrNotExist) {
		if err := writeFile(o.Dir, script, fmt.Appendf(nil, "#!/bin/sh\nexec %s run --name %s \"$@\"\n", o.Program, o.Name), 0o755); err != nil {
			return err
		}
		o.Progress("wrote %s", script)
	}
	return nil
}

// writeSettings writes a new NAME.yaml with the URLs of the members' APIs.
func writeSettings(path string, remotes []string, o SetupOptions) error {
	text := strings.Replace(settingsText, "https://127.0.0.1:8444", strings.Join(remotes, ", "), 1)
	if err := writeFile(o.Dir, path, []byte(metadataText+"\n"+text), 0o644); err != nil {
		return err
	}
	o.Progress("wrote %s", path)
	return nil
}

// writeFile writes a file as the owner of the folder dir, who is the user that the server runs as.
func writeFile(dir, path string, text []byte, mode fs.FileMode) error {
	return file.AsOwner(dir, func() error { return file.Write(path, text, mode) })
}

// setUpProject makes the project of the nodes if it is missing.
func setUpProject(ctx context.Context, c *client, s settings, o SetupOptions) error {
	config := map[string]string{
		"features.images": "false", "features.profiles": "true", "features.storage.volumes": "true", "features.networks": "false",
		"restricted": "true", "restricted.cluster.target": "allow", "restricted.devices.proxy": "allow",
		"restricted.containers.nesting": "block", "restricted.containers.privilege": "unprivileged",
	}
	if s.IsolatedIDs {
		config["restricted.containers.privilege"] = "isolated"
	}
	if found, err := c.exists(ctx, "projects/"+s.Project); found || err != nil {
		return err
	}
	_, err := c.do(ctx, request{method: http.MethodPost, path: "projects", body: map[string]any{
		"name": s.Project, "description": "nodes of Patchbay", "config": config,
	}})
	if err == nil {
		o.Progress("made the project %s", s.Project)
	}
	return err
}

// exists reports whether there is something at the path.
func (c *client) exists(ctx context.Context, path string) (bool, error) {
	var v json.RawMessage
	err := c.get(ctx, path, nil, &v)
	if isStatus(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// setUpBridges makes missing bridges. With several members each bridge is a VXLAN over all of them.
func setUpBridges(ctx context.Context, c *client, members []member, clustered bool, o SetupOptions) error {
	for _, m := range members {
		if !m.isOnline() {
			return fmt.Errorf("the member %s is %s: %s; bridges can only be made while all members are up", m.Name, m.Status, m.Message)
		}
	}
	have, err := c.bridges(ctx)
	if err != nil {
		return err
	}
	made := 0
	for n := range o.Links {
		name := fmt.Sprintf("%s%03d", bridgePrefix, n)
		if slices.ContainsFunc(have, func(b bridge) bool { return b.Name == name }) {
			continue
		}
		config := map[string]string{"ipv4.address": "none", "ipv6.address": "none", "bridge.mtu": fmt.Sprint(linkMTU)}
		if clustered {
			config["tunnel.members.protocol"] = "vxlan"
			config["tunnel.members.id"] = fmt.Sprint(firstVXLAN + n)
			config["tunnel.members.group"] = fmt.Sprintf("239.193.%d.%d", n/250, n%250+1)
			for _, m := range members {
				_, err := c.do(ctx, request{method: http.MethodPost, path: "networks", query: url.Values{"target": {m.Name}}, body: map[string]any{"name": name, "type": "bridge"}})
				if err != nil && !strings.Contains(err.Error(), "already") {
					return fmt.Errorf("the bridge %s on %s: %w", name, m.Name, err)
				}
			}
		}
		_, err := c.do(ctx, request{method: http.MethodPost, path: "networks", body: map[string]any{"name": name, "type": "bridge", "description": "a link of Patchbay", "config": config}})
		if err != nil {
			return fmt.Errorf("the bridge %s: %w", name, err)
		}
		if made++; made%50 == 0 {
			o.Progress("made %d bridges", made)
		}
	}
	if made > 0 {
		o.Progress("made %d bridges for links", made)
	}
	return nil
}

// firstVXLAN is the VXLAN id of the first bridge.
const firstVXLAN = 7000

// vxlanPort is the UDP port of the members.
const vxlanPort = "8472"

// tunnelACL is the name of the network ACL that keeps nodes off vxlanPort.
const tunnelACL = "patchbay-links"

// keepNodesOffTunnels adds a rule to the nodes' network: a member takes VXLAN frames from everybody, so a node
// could send frames into any link.
//
// LXD 5.0 with iptables cannot take out the rules of an ACL. When its daemon restarts, the network stays away,
// and no node starts on that member. So there is no ACL if a member uses iptables.
func keepNodesOffTunnels(ctx context.Context, c *client, s settings, members []member, o SetupOptions) error {
	n, err := c.network(ctx, s.Network)
	if isStatus(err, http.StatusNotFound) {
		o.Progress("there is no network %s; make it, or name another one in %s.yaml, and run this again", s.Network, o.Name)
		return nil
	}
	if err != nil {
		return err
	}
	acls := strings.FieldsFunc(n.Config["security.acls"], func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case !n.isBridge():
		o.Progress("the network %s is not the cluster's: let the members' firewalls accept UDP port %s from members only", s.Network, vxlanPort)
		return nil
	case slices.Contains(acls, tunnelACL):
		return nil
	}
	for _, m := range members {
		var info server
		if err := c.get(ctx, "", url.Values{"target": {m.Name}}, &info); err != nil {
			return err
		}
		if info.Environment.Server == "lxd" && info.Environment.Firewall == "xtables" {
			o.Progress("nodes can send frames into links of other slices: LXD on %s uses iptables; install nftables on all members, run systemctl restart lxd there, and run this again", m.Name)
			return nil
		}
	}
	found, err := c.exists(ctx, "network-acls/"+tunnelACL)
	if err != nil {
		return err
	}
	if !found {
		rule := map[string]string{"action": "drop", "state": "enabled", "protocol": "udp", "destination_port": vxlanPort}
		if _, err := c.do(ctx, request{method: http.MethodPost, path: "network-acls", body: map[string]any{
			"name": tunnelACL, "description": "keeps nodes of Patchbay out of the tunnels of links", "egress": []any{rule}, "ingress": []any{},
		}}); err != nil {
			return err
		}
	}
	config := map[string]string{"security.acls": strings.Join(append(acls, tunnelACL), ",")}
	if len(acls) == 0 {
		config["security.acls.default.egress.action"], config["security.acls.default.ingress.action"] = "allow", "allow"
	}
	if _, err := c.do(ctx, request{method: http.MethodPatch, path: "networks/" + s.Network, body: map[string]any{"config": config}}); err != nil {
		return err
	}
	o.Progress("nodes cannot reach UDP port %s through the network %s: the ACL %s", vxlanPort, s.Network, tunnelACL)
	return nil
}

// setUpTrust makes the provider's key, and makes the server trust its certificate for the project
// only.
func setUpTrust(ctx context.Context, c *client, s settings, o SetupOptions) error {
	certificate, err := ownCertificate(filepath.Join(o.Dir, s.Certificate), filepath.Join(o.Dir, s.PrivateKey), o)
	if err != nil {
		return err
	}
	trusted, err := c.exists(ctx, fmt.Sprintf("certificates/%x", sha256.Sum256(certificate)))
	if err != nil {
		return err
	}
	if !trusted {
		if _, err := c.do(ctx, request{method: http.MethodPost, path: "certificates", body: map[string]any{
			"type": "client", "name": "patchbay-" + s.Project, "certificate": base64.StdEncoding.EncodeToString(certificate),
			"restricted": true, "projects": []string{s.Project},
		}}); err != nil {
			return err
		}
		o.Progress("the server trusts %s for the project %s only", s.Certificate, s.Project)
	}
	var info struct {
		Environment struct {
			Certificate string `json:"certificate"`
		} `json:"environment"`
	}
	if err := c.get(ctx, "", nil, &info); err != nil {
		return err
	}
	path := filepath.Join(o.Dir, s.ServerCertificate)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, []byte(info.Environment.Certificate)) {
		return nil
	} else if err == nil {
		return fmt.Errorf("the server has another certificate than %s; if that is right, remove the file and run this again", path)
	}
	if err := writeFile(o.Dir, path, []byte(info.Environment.Certificate), 0o644); err != nil {
		return err
	}
	o.Progress("wrote %s, the only certificate that the server may have", path)
	return nil
}

// ownCertificate returns the certificate in DER. It makes key and certificate if they are missing.
func ownCertificate(certificatePath, keyPath string, o SetupOptions) ([]byte, error) {
	if text, err := os.ReadFile(certificatePath); err == nil {
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("%s has no certificate; remove it, and run this again", certificatePath)
		}
		return block.Bytes, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "patchbay"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if err := writeFile(o.Dir, keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	if err := writeFile(o.Dir, certificatePath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o644); err != nil {
		return nil, err
	}
	o.Progress("made %s and %s", certificatePath, keyPath)
	return certificate, nil
}
