// Package doctor finds out by trying what this host can do for nodes, and says how
// to enable the rest. It finds out by doing each thing once, never by asking for a
// version: kernels are patched, and containers around us forbid what the kernel
// could.
//
// What is tried goes away with it. Mounts, devices and namespaces belong to
// children (Argv0, ChildMain) and end with them, also when this program is killed;
// folders and groups carry the name of the process that made them, and the
// next examination takes those whose maker is gone. Several may run at once.
package doctor
