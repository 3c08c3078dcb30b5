case "$1" in
remove) gone ;;
purge)
  # What agents write. The configuration and the keys were written by people, and stay.
  if used; then
    say "another agent uses /var/lib/fencing-agent and /run/fencing-agent: they are left as they are"
  else
    rm -rf /var/lib/fencing-agent /run/fencing-agent
  fi
  ;;
esac
