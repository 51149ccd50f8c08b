#!/bin/sh
# Shows `graphsearch uci` in chess programs of Debian, without a screen, and takes pictures of them:
#
#     apt-get install --no-install-recommends xboard polyglot gnome-chess scid pychess xvfb openbox xdotool imagemagick
#     tools/chess_programs.sh FOLDER [xboard_game | xboard_analysis | gnome_chess | scid_game | pychess_hints]
#
# FOLDER gets settings, games and pictures. A person looks at the pictures; docs/uci.md says what was seen.
set -eu

mkdir -p "$1"
FOLDER=$(cd "$1" && pwd)
shift
PROGRAM=$(command -v graphsearch)
cat >"$FOLDER/engine" <<END
#!/bin/sh
export HOME="$HOME"
exec $PROGRAM uci --ram 256MB
END
chmod +x "$FOLDER/engine"
export DISPLAY=:97 XDG_CONFIG_HOME="$FOLDER/config" GSETTINGS_BACKEND=memory PATH="$PATH:/usr/games"
cd "$FOLDER"

Xvfb $DISPLAY -screen 0 1280x900x24 -nolisten tcp 2>xvfb.log &
SERVER=$!
trap 'kill $SERVER' EXIT
sleep 2
openbox 2>openbox.log &

picture() { # NAME
    import -window root "$1.png"
}

click() { # X Y
    xdotool mousemove "$1" "$2" click 1
    sleep 0.5
}

xboard_with() { # what else; the adapter Polyglot speaks UCI
    xboard -size 40 -fcp ./engine -fUCI -fd . -scp ./engine -sUCI -sd . "$@" 2>>xboard.log &
    PROGRAM=$!
}

xboard_game() { # a whole game against itself, into game.pgn
    xboard_with -mode TwoMachines -tc 0:20 -inc 0 -sgf game.pgn -debug -nameOfDebugFile game.debug
    sleep 120
    picture xboard_game
    kill -9 $PROGRAM
    tail -n 3 game.pgn
}

xboard_analysis() { # three lines of a start position of Chess960; then the engine is killed
    xboard_with -mode Analysis -variant fischerandom -firstOptions MultiPV=3
    sleep 15
    picture xboard_analysis
    pkill -9 -P "$(pgrep -P $PROGRAM polyglot)"
    sleep 3
    picture xboard_killed
    kill -9 $PROGRAM
}

gnome_chess() { # 1. e4 by hand, the answer, and a killed engine
    mkdir -p config/gnome-chess
    printf '[graphsearch]\nbinary=%s/engine\nprotocol=uci\n' "$FOLDER" >config/gnome-chess/engines.conf
    gnome-chess 2>gnome-chess.log &
    PROGRAM=$!
    sleep 10
    xdotool search --name 'White to Move' windowmove 0 0 windowactivate
    sleep 1
    eval "$(xdotool getactivewindow getwindowgeometry --shell)"
    click $((X + WIDTH * 53 / 100)) $((Y + HEIGHT * 72 / 100))
    click $((X + WIDTH * 53 / 100)) $((Y + HEIGHT * 54 / 100))
    sleep 10
    picture gnome_chess
    pkill -9 -P $PROGRAM
    click $((X + 28)) $((Y + 28))
    sleep 3
    picture gnome_chess_killed
    kill -9 $PROGRAM
}

scid_game() { # three lines of analysis, a killed engine, and a game against itself; Scid runs its options
    settings=scid/.scid4.7/config
    mkdir -p $settings
    echo "engine {Name graphsearch Cmd $FOLDER/engine Dir . UCI 1 UCIoptions {{MultiPV 3}}}" >$settings/engines.dat
    cat >$settings/options.dat <<END
set startup(tip) 0
after 4000 {toggleEngineAnalysis 1}
after 30000 {makeAnalysisWin 1 0 0}
after 38000 {
    set ::finishGameCmdVal1 1
    set ::finishGameCmdVal2 1
    after 1000 {.configFinishGame.fbuttons.ok invoke}
    toggleFinishGame 1
}
END
    HOME="$FOLDER/scid" scid 2>>scid.log &
    PROGRAM=$!
    sleep 15
    click 525 64 # the analysis
    picture scid_analysis
    pkill -9 -P $PROGRAM
    sleep 3
    picture scid_killed
    xdotool key Return # its message
    sleep 180
    picture scid_game
    kill -9 $PROGRAM
}

pychess_hints() { # 1. e4 by hand, the answer with hints, and killed engines
    mkdir -p config/pychess
    printf '[{"name": "graphsearch", "protocol": "uci", "command": "%s/engine", "recheck": true}]' "$FOLDER" \
        >config/pychess/engines.json
    printf '[General]\nshow_tip_at_startup=False\ndont_show_externals_at_startup=True\nana_combobox=%s\n' \
        "$(md5sum <engine | cut -c1-32)" >config/pychess/config
    HOME="$FOLDER" pychess 2>>pychess.log &
    PROGRAM=$!
    sleep 30
    click 554 275 # the opponent
    click 545 309
    click 529 335
    sleep 15
    click 558 393
    click 558 329
    sleep 15
    click 380 470 # the hints
    picture pychess_hints
    pkill -9 -P $PROGRAM
    sleep 3
    picture pychess_killed
    kill -9 $PROGRAM
}

for program in "${@:-xboard_game}"; do
    "$program"
done
