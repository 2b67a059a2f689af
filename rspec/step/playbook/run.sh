# Plays the playbook of the step on this node. Patchbay has set host, the node's name in the
# inventory, and version, the version of Ansible to install; empty if the image has the right one.
set -eu
own=$PWD/.patchbay
export LC_ALL=C.UTF-8
[ "$(id -u)" != 0 ] || export HOME=/root # else the user's ~/.ansible would be root's
if [ -n "$version" ]; then
	programs=$HOME/.ansible-core-$version
	[ -x "$programs/bin/ansible-playbook" ] || {
		python3 -m venv "$programs"
		"$programs/bin/pip" install -q "ansible-core==$version.*" jmespath
	}
	PATH=$programs/bin:$PATH
fi
command -v ansible-playbook >/dev/null || {
	echo "this node has no ansible-playbook, although its image lists software.ansible" >&2
	exit 127
}
gzip -d "$own/inventory.json.gz"
export ANSIBLE_NOCOLOR=1 ANSIBLE_FORCE_COLOR=0 ANSIBLE_RETRY_FILES_ENABLED=0 ANSIBLE_HOST_KEY_CHECKING=0
export ANSIBLE_PYTHON_INTERPRETER=auto_silent ANSIBLE_LOCALHOST_WARNING=0
export ANSIBLE_ROLES_PATH=$PWD:$PWD/roles:/etc/ansible/roles:/usr/share/ansible/roles
export ANSIBLE_FILTER_PLUGINS=$own ANSIBLE_LOCAL_TEMP=$own/tmp ANSIBLE_REMOTE_TEMP=$own/tmp
exec ansible-playbook -i "$own/inventory.json" -i "$own/node.json" -c local --limit "$host,localhost" playbook
