case "$1" in
remove) gone ;;
purge)
  # What agents write. The configuration and the keys were written by people, and stay.
  rm -rf /var/lib/fencing-agent /run/fencing-agent
  ;;
esac
