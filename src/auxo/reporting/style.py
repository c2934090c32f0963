"""The report's style sheet: Okabe and Ito's colour-blind-safe colours, light and dark, wide and narrow, on paper."""

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--ink:#16202b;--soft:#55616e;--faint:#8b96a2;--rule:#e3e7eb;--card:#f5f7f9;
--warn:#fdf3dc;--warn-ink:#5c4300;--base:#6b7682;--auxo:#0072b2;--oracle:#009e73;--zone:#0000000a;--shade:#16202b40;
--k0:#0072b2;--k1:#d55e00;--k2:#009e73;--k3:#cc79a7;--k4:#e69f00;--k5:#56b4e9;
--g0:#0072b2;--g1:#e69f00;--g2:#009e73;--g3:#cc79a7;--g4:#56b4e9;--g5:#d55e00;--g6:#f0e442}
@media screen and (prefers-color-scheme:dark){:root{--bg:#11161c;--ink:#e9eef3;--soft:#a9b4bf;--faint:#76828e;
--rule:#28313a;--card:#19212a;--warn:#33290f;--warn-ink:#f3dca0;--base:#9aa6b2;--auxo:#56b4e9;--oracle:#2fc79b;
--zone:#ffffff0d;--shade:#e9eef34d;--k0:#3d9fe0;--k1:#f0803c;--k2:#2fc79b;--k3:#e097c2;--k4:#f2b83a;--k5:#8fd0f5;
--g0:#2b86c5;--g1:#e69f00;--g2:#12a97e;--g3:#cc79a7;--g4:#7cc6ef;--g5:#d9691f;--g6:#f0e442}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:60rem;margin:0 auto;padding:3rem 1.5rem 5rem}
h1{font-size:clamp(1.5rem,4.2vw,2.3rem);line-height:1.22;letter-spacing:-.018em;font-weight:680;margin:.4rem 0 .9rem;
text-wrap:balance}
h2{font-size:1.3rem;letter-spacing:-.01em;margin:3.6rem 0 .5rem}
h3{font-size:1rem;margin:2rem 0 .3rem}
p{margin:.4rem 0;max-width:46rem}
.over{color:var(--soft);font-size:.9rem;margin:0;overflow-wrap:anywhere}
.lead,.soft,figcaption{color:var(--soft)}
.banner{background:var(--warn);color:var(--warn-ink);border-radius:8px;padding:.8rem 1.1rem;margin:1.2rem 0}
.banner p{margin:.15rem 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.8rem;margin:1.8rem 0;padding:0;
list-style:none}
.tiles li{background:var(--card);border-radius:10px;padding:.9rem 1.1rem}
.tiles b{display:block;font-size:1.75rem;line-height:1.2;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.tiles span{font-size:.9rem;display:block;line-height:1.4}
.tiles span+span{color:var(--soft);font-size:.82rem;margin-top:.2rem}
.cohorts{list-style:none;padding:0}
.cohorts li{margin:.8rem 0}
.cohorts span{display:block;font-size:.94rem}
figure{margin:1.6rem 0 2.4rem}
figcaption{font-size:.92rem;max-width:46rem;margin-top:.6rem}
.scroll{overflow-x:auto;margin:1.2rem 0;background:
linear-gradient(to right,var(--bg) 40%,transparent) left/3rem 100% no-repeat local,
linear-gradient(to left,var(--bg) 40%,transparent) right/3rem 100% no-repeat local,
linear-gradient(to right,var(--shade),transparent) left/1.1rem 100% no-repeat scroll,
linear-gradient(to left,var(--shade),transparent) right/1.1rem 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.94rem;font-variant-numeric:tabular-nums;width:100%}
th,td{padding:.42rem .7rem;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0}
tbody th{font-weight:400;white-space:normal;overflow-wrap:anywhere;min-width:7rem}
thead th{color:var(--soft);font-weight:600;vertical-align:bottom;white-space:normal}
tbody th[scope=rowgroup]{font-weight:600;padding-top:1rem}
td.words,thead th.words{text-align:left;white-space:normal;overflow-wrap:anywhere}
td.list{white-space:normal}
td.name,thead th.name{text-align:left}
th.auxo,td.auxo{font-weight:650;color:var(--ink)}
details{border:1px solid var(--rule);border-radius:8px;padding:.6rem 1rem;margin:1rem 0}
summary{cursor:pointer}
pre{overflow-x:auto;font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace}
svg.chart{display:block;width:100%;height:auto;overflow:visible;
font:12.5px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.narrow{display:none}
.grid{stroke:var(--rule)}
.floor{stroke:var(--faint)}
.axis,.tick,.note{fill:var(--soft)}
.axis{font-size:12.5px}
.label{fill:var(--ink);font-weight:600;font-size:12.5px}
.strong{fill:var(--ink);font-weight:700;font-size:13px}
.halo{paint-order:stroke;stroke:var(--bg);stroke-width:5px;stroke-linejoin:round}
.line{fill:none;stroke:var(--c);stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}
.dashed{stroke-dasharray:6 5;stroke-width:1.9}
.line[class*=" c-k"]{stroke-width:1.5}
.under1,.line.under1{stroke-width:4.8}
.under2,.line.under2{stroke-width:7.2}
.leader{stroke:var(--c);stroke-width:1.2;opacity:.75}
.far{stroke-dasharray:1 4}
.band{fill:var(--c);opacity:.16}
.dot{fill:var(--c);stroke:var(--bg);stroke-width:1.5}
.hover{fill:transparent}
.hover:hover{fill:var(--faint);fill-opacity:.45}
.mark{stroke:var(--soft);stroke-dasharray:2 3}
.span{stroke:var(--ink);stroke-width:1.5}
.zone{fill:var(--zone)}
.level{stroke:var(--c);stroke-width:5;opacity:.85}
.branch{fill:none;stroke:var(--faint);stroke-width:2}
.node{fill:var(--bg);stroke:var(--ink);stroke-width:2}
.leaf{fill:var(--auxo);stroke:var(--auxo)}
.part{stroke:var(--bg);stroke-width:.8}
.c-base{--c:var(--base)}.c-auxo{--c:var(--auxo)}.c-oracle{--c:var(--oracle)}.c-ink{--c:var(--soft)}
.c-m0{--c:var(--k1)}.c-m1{--c:var(--k3)}.c-m2{--c:var(--k4)}.c-m3{--c:var(--k5)}
.c-k0{--c:var(--k0)}.c-k1{--c:var(--k1)}.c-k2{--c:var(--k2)}.c-k3{--c:var(--k3)}.c-k4{--c:var(--k4)}.c-k5{--c:var(--k5)}
.g-0{fill:var(--g0)}.g-1{fill:var(--g1)}.g-2{fill:var(--g2)}.g-3{fill:var(--g3)}.g-4{fill:var(--g4)}.g-5{fill:var(--g5)}
.g-6{fill:var(--g6)}
@media screen and (max-width:640px){main{padding:1.6rem 1rem 3rem}.wide{display:none}.narrow{display:block}
th,td{padding:.42rem .45rem}table{font-size:.88rem}tbody th{min-width:3.6rem}
.tiles{grid-template-columns:1fr 1fr}.tiles b{font-size:1.4rem}}
@media print{main{max-width:none;padding:0}body{font-size:11pt;
print-color-adjust:exact;-webkit-print-color-adjust:exact}
.scroll{overflow:visible;background:none}table{font-size:8.5pt}th,td{padding:.22rem .35rem}
figure,tr,.tiles li{break-inside:avoid}h2,h3{break-after:avoid}h2{margin-top:1.6rem}}
"""
