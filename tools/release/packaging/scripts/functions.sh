# A package must never leave an armed watchdog to nobody, nor take the guard of a node away unasked: it neither
# starts, stops nor restarts the agent.

# running: systemd runs this machine, and is not the one of a container or of a root that is being made.
running() { [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; }

say() { echo "fencing-agent: $*" >&2; }

# guarding: the agent runs, starts again after a crash, or is on its way out; its watchdog may be armed.
guarding() {
  running || return 1
  case "$(systemctl show -p ActiveState --value fencing-agent.service 2>/dev/null)" in
  active | activating | deactivating | reloading) return 0 ;;
  *) return 1 ;;
  esac
}

# elsewhere: make install, or a person, has put another unit of this name there. systemd prefers it to that of the package.
elsewhere() {
  [ -e /usr/local/lib/systemd/system/fencing-agent.service ] || [ -e /etc/systemd/system/fencing-agent.service ]
}

# used: another agent works with the folders of the package: of make install, or a pod of the chart, which has no unit and listens.
used() { guarding || elsewhere || grep -q '/fencing-agent\.sock$' /proc/net/unix 2>/dev/null; }

# accepted: the program that has just been installed takes the configuration, with what the unit's environment adds.
accepted() (
  set -a
  if [ -r /etc/default/fencing-agent ]; then . /etc/default/fencing-agent; fi
  fencectl config check /etc/fencing-agent/agent.yaml >/dev/null
)

# installed NEW|OLD: what holds after an installation and an upgrade.
installed() {
  if command -v systemd-sysusers >/dev/null 2>&1; then
    systemd-sysusers fencing-agent.conf || say "systemd-sysusers made no group fencing-agent"
  fi
  ! running || systemctl daemon-reload || :
  if elsewhere; then
    say "there is another unit fencing-agent.service, in /usr/local/lib/systemd/system or /etc/systemd/system, which systemd prefers to that of the package"
  fi
  # A version that does not take the file would not come back after a restart: better to hear it now.
  if [ -e /etc/fencing-agent/agent.yaml ] && ! accepted; then
    say "this version does not take /etc/fencing-agent/agent.yaml as it is: correct it before the agent is restarted"
  fi
  if guarding; then
    say "the running agent is still the old one. When it is this node's turn: systemctl restart fencing-agent, then fencectl status --check"
  elif [ "$1" = NEW ]; then
    say "nothing was started. Write /etc/fencing-agent/agent.yaml (examples: /usr/share/doc/fencing-agent/examples), read /usr/share/fencing-agent/node, then: systemctl enable --now fencing-agent"
  fi
}

# leave: what has to hold before the package is removed.
leave() {
  if guarding; then
    say "the agent guards this node: its removal would take that away. First: systemctl disable --now fencing-agent, which tells the others and disarms"
    exit 1
  fi
  if running; then
    elsewhere || systemctl --no-reload disable fencing-agent.service >/dev/null 2>&1 || :
  fi
}

gone() { ! running || systemctl daemon-reload || :; }
